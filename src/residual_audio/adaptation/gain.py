r"""ResiDual and its family: what a unit writes is changed inside some of its principal axes.

$$y = \mu' + (P + \Phi_k^\top M\, \Phi_k)(z - \mu)$$

Φₖ holds the k kept axes as rows. M is made of the learned numbers by a form (:mod:`.forms`): ``gains`` is $\mathrm{diag}(g - 1)$, one gain
per axis. P is the identity: other axes pass unchanged; or, truncated as in the paper, $\Phi_k^\top \Phi_k$: they are dropped. $\mu'$ is μ
(``mean="keep"``, so that M = 0 is the identity) or nothing (``mean="drop"``, as in the papers). With a strength τ below one, the change
is scaled back: $z + \tau (y - z)$.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from ..options import OptionError
from ..spectra import Basis
from .forms import FORMS, Form
from .select import Place

MeanRule = Literal["keep", "drop"]
TENSORS = ("axes", "mean", "variance", "values")


@dataclass(frozen=True)
class GainSet:
    """Bases and learned numbers of one place: ``axes [unit, axis, d]``, one unit per head, or a single one for other kinds.

    ``values [unit, number]`` are what the ``form`` makes a matrix of; of ``gains``, one per axis.
    """

    place: Place
    axes: Float[Tensor, "unit axis d"]
    mean: Float[Tensor, "unit d"]
    variance: Float[Tensor, "unit axis"]
    values: Float[Tensor, "unit number"]
    form: str = "gains"
    truncated: bool = False
    tau: float = 1.0

    @property
    def count(self) -> int:
        return self.values.numel()

    def inside(self) -> Float[Tensor, "unit axis axis"]:
        """M: from coordinates along the kept axes to what is added along them."""
        k = self.axes.shape[-2]
        identity = torch.eye(k, dtype=self.axes.dtype, device=self.axes.device).expand(len(self.axes), k, k)
        return FORMS[self.form].turned(self.values, identity).mT

    def matrix(self, values: Float[Tensor, "unit number"] | None = None) -> Float[Tensor, "unit d d"]:
        r"""$P + \Phi^\top M\, \Phi$, the strength included; the identity for neutral values."""
        turned = FORMS[self.form].turned(self.values if values is None else values, self.axes)
        identity = torch.eye(self.axes.shape[-1], dtype=self.axes.dtype, device=self.axes.device)
        if self.truncated:
            turned = turned + self.axes
            return self.axes.new_tensor(1 - self.tau) * identity + self.tau * turned.mT @ self.axes
        return identity + (turned if self.tau == 1 else self.tau * turned).mT @ self.axes

    def offset(self, matrix: Float[Tensor, "unit d d"], mean: MeanRule) -> Float[Tensor, "unit d"]:
        r"""The constant of the affine map: $\mu' - A\mu$; a mean that is dropped is dropped as far as the strength says."""
        moved = torch.einsum("ude,ue->ud", matrix, self.mean)
        return (1 - self.tau * (mean == "drop")) * self.mean - moved


@dataclass(frozen=True)
class ResiDual:
    """Everything that is learned, and how it is to be applied."""

    sets: tuple[GainSet, ...]
    mean: MeanRule = "keep"
    notes: dict[str, object] = field(default_factory=dict)

    @property
    def trained(self) -> int:
        """How many numbers were (or can be) learned."""
        return sum(s.count for s in self.sets)

    def with_values(self, values: list[Float[Tensor, "_ _"]]) -> ResiDual:
        return replace(self, sets=tuple(replace(s, values=v.detach().clone()) for s, v in zip(self.sets, values, strict=True)))

    def scaled(self, tau: float) -> ResiDual:
        """So much of the change: all of it at one, none at zero; of gains, 1 + τ(g − 1)."""
        return replace(self, sets=tuple(replace(s, tau=s.tau * tau) for s in self.sets))

    def to(self, device: torch.device, dtype: torch.dtype) -> ResiDual:
        put = dict(device=device, dtype=dtype)
        moved = (replace(s, **{k: getattr(s, k).to(**put) for k in TENSORS}) for s in self.sets)
        return replace(self, sets=tuple(moved))


def kept_axes(basis: Basis, kept: int | float | None) -> int:
    """How many leading axes: all (None), a number, or so many that every unit has a share of its variance (0 < share < 1)."""
    axes = basis.variance.shape[-1]
    if kept is None:
        return axes
    if isinstance(kept, int):
        return min(kept, axes)
    share = basis.variance.cumsum(-1) / basis.variance.sum(-1, keepdim=True).clamp_min(1e-300)
    return int((share < kept).sum(-1).max().item()) + 1 if axes else 0


def starting_gains(basis: Basis, axes: int, start: float | None) -> Float[Tensor, "unit axis"]:
    """Ones; or ones on the leading axes that explain the share ``start`` of a unit's variance and zeros on the rest (the papers: 0.95)."""
    gain = torch.ones(len(basis.variance), min(axes, basis.variance.shape[-1]), dtype=basis.axes.dtype)
    if start is None:
        return gain
    before = (basis.variance.cumsum(-1) - basis.variance) / basis.variance.sum(-1, keepdim=True).clamp_min(1e-300)
    return gain * (before[:, :axes] < start)


@dataclass(frozen=True)
class Shape:
    """What of a basis is changed and how: the ``form`` of heads, that of ``wide`` places where it is another, how many axes are ``kept``
    or, with the others dropped, ``retain``-ed, and where gains ``start``. ``band``: only the axes from the first to the last of it, counted
    from one. ``wide_kept``: how many of wide places, where others; if nothing is said, a matrix there is inside the leading ones."""

    form: str = "gains"
    wide: str | None = None
    kept: int | float | None = None
    retain: int | float | None = None
    start: float | None = None
    band: tuple[int, int] | None = None
    wide_kept: int | float | None = None

    def form_of(self, place: Place) -> Form:
        """Of heads, or of a place that is wide."""
        return FORMS[self.form if place.kind == "heads" else self.wide or self.form]

    def changed(self, place: Place, basis: Basis) -> tuple[int, int]:
        """The first and the last axis of a place that are changed, counted from one."""
        if self.band is not None:
            return self.band
        kept = self.kept if self.retain is None else self.retain
        if place.kind == "heads":
            return 1, kept_axes(basis, kept)
        if self.wide_kept is None and kept is None:
            return 1, self.form_of(place).wide_axes(basis.variance.shape[-1])
        return 1, kept_axes(basis, kept if self.wide_kept is None else self.wide_kept)


def gain_set(place: Place, basis: Basis, shape: Shape = Shape()) -> GainSet:
    """The numbers of a form at their start, on the leading axes of a basis, or on those of a band."""
    first, last = shape.changed(place, basis)
    if first > (known := basis.variance.shape[-1]):
        raise OptionError(f"--components: {place.label} has {known} axes, none from {first} on")
    changed = slice(first - 1, last)
    axes, variance = basis.axes[:, changed], basis.variance[:, changed]
    form = shape.form_of(place)
    if shape.start is None or form.start is None:
        values = torch.full((len(variance), form.count(axes.shape[1])), form.neutral, dtype=basis.axes.dtype)
    else:
        values = form.start(starting_gains(basis, last, shape.start)[:, changed])
    return GainSet(place, axes, basis.mean, variance, values, form.name, truncated=shape.retain is not None)


def random_basis(basis: Basis, seed: int) -> Basis:
    """Random orthonormal axes about the same mean: the control. ``variance`` is that of the data along them, if it is known, else equal."""
    generator = torch.Generator().manual_seed(seed)
    shape = basis.axes.shape
    q = torch.linalg.qr(torch.randn(shape[0], shape[2], shape[2], generator=generator, dtype=torch.float64)).Q
    axes = q.mT[:, : shape[1]].to(basis.axes)
    covariance = torch.einsum("uad,ua,uae->ude", basis.axes, basis.variance, basis.axes)
    variance = torch.einsum("uad,ude,uae->ua", axes, covariance, axes)
    return Basis(axes, variance, basis.mean)
