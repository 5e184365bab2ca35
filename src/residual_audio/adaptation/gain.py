r"""ResiDual: one gain per principal axis of a unit, $y = \mu' + (I + \Phi^\top \mathrm{diag}(g - 1)\, \Phi)(z - \mu)$.

With every axis kept this is $\Phi^\top \mathrm{diag}(g) \Phi (z - \mu) + \mu'$; axes that are not kept pass unchanged. $\mu'$ is μ
(``mean="keep"``, so that gains of one are the identity) or nothing (``mean="drop"``, as in the papers).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from ..spectra import Basis
from .select import Place

MeanRule = Literal["keep", "drop"]


@dataclass(frozen=True)
class GainSet:
    """Bases and gains of one place: ``axes [unit, axis, d]``, one unit per head, or a single one for other forms.

    ``gain`` has one number an axis, or a single one for all axes of a unit (``[unit, 1]``): a volume knob instead of an equaliser.
    """

    place: Place
    axes: Float[Tensor, "unit axis d"]
    mean: Float[Tensor, "unit d"]
    variance: Float[Tensor, "unit axis"]
    gain: Float[Tensor, "unit gain"]

    @property
    def count(self) -> int:
        return self.gain.numel()

    def matrix(self, gain: Float[Tensor, "unit gain"] | None = None) -> Float[Tensor, "unit d d"]:
        r"""$I + \Phi^\top \mathrm{diag}(g - 1)\, \Phi$: symmetric; the identity for gains of one."""
        gain = self.gain if gain is None else gain
        identity = torch.eye(self.axes.shape[-1], dtype=self.axes.dtype, device=self.axes.device)
        return identity + (self.axes * (gain - 1)[..., None]).mT @ self.axes

    def offset(self, matrix: Float[Tensor, "unit d d"], mean: MeanRule) -> Float[Tensor, "unit d"]:
        r"""The constant of the affine map: $\mu' - A\mu$."""
        moved = torch.einsum("ude,ue->ud", matrix, self.mean)
        return self.mean - moved if mean == "keep" else -moved


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

    def with_gains(self, gains: list[Float[Tensor, "_ _"]]) -> ResiDual:
        return replace(self, sets=tuple(replace(s, gain=g.detach().clone()) for s, g in zip(self.sets, gains, strict=True)))

    def to(self, device: torch.device, dtype: torch.dtype) -> ResiDual:
        put = dict(device=device, dtype=dtype)
        moved = (replace(s, **{k: getattr(s, k).to(**put) for k in ("axes", "mean", "variance", "gain")}) for s in self.sets)
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
    gain = torch.ones(len(basis.variance), axes, dtype=basis.axes.dtype)
    if start is None:
        return gain
    before = (basis.variance.cumsum(-1) - basis.variance) / basis.variance.sum(-1, keepdim=True).clamp_min(1e-300)
    return gain * (before[:, :axes] < start)


def gain_set(place: Place, basis: Basis, kept: int | float | None = None, start: float | None = None, tied: bool = False) -> GainSet:
    """Gains at their start on the leading axes of a basis; ``tied``: a single one for all axes of a unit."""
    if tied:
        return GainSet(place, basis.axes, basis.mean, basis.variance, torch.ones_like(basis.variance[:, :1]))
    axes = kept_axes(basis, kept)
    return GainSet(place, basis.axes[:, :axes], basis.mean, basis.variance[:, :axes], starting_gains(basis, axes, start))


def random_basis(basis: Basis, seed: int) -> Basis:
    """Random orthonormal axes about the same mean: the control. ``variance`` is that of the data along them, if it is known, else equal."""
    generator = torch.Generator().manual_seed(seed)
    shape = basis.axes.shape
    q = torch.linalg.qr(torch.randn(shape[0], shape[2], shape[2], generator=generator, dtype=torch.float64)).Q
    axes = q.mT[:, : shape[1]].to(basis.axes)
    covariance = torch.einsum("uad,ua,uae->ude", basis.axes, basis.variance, basis.axes)
    variance = torch.einsum("uad,ude,uae->ua", axes, covariance, axes)
    return Basis(axes, variance, basis.mean)
