r"""The original ResiDual: gains on the principal axes of units' direct shares of the embedding.

$e' = e + \sum_u \Phi_u^\top \mathrm{diag}(g_u - 1)\, \Phi_u (c_u - \mu_u)$, and $-\sum_u \mu_u$ where means are dropped. Gains of one with
the mean kept change nothing. It trains on stored shares, and the encoder never runs; but what it computes is no encoder's forward pass, so
it cannot be folded: inference needs every unit's share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from ..spectra import Basis, Moments, principal_axes
from .gain import kept_axes, starting_gains
from .streams import Rows


@dataclass(frozen=True)
class ShareBasis:
    """Axes of several units, side by side: ``axes [axis, d]``, ``unit [axis]`` says whose each is, ``mean [unit, d]``."""

    axes: Float[Tensor, "axis d"]
    unit: Tensor
    mean: Float[Tensor, "unit d"]
    start: Float[Tensor, " axis"]

    @classmethod
    def of(cls, shares: Float[Tensor, "clip unit d"], kept: int | float | None, start: float | None) -> ShareBasis:
        """Principal axes of each unit's shares over these clips. Axes that a unit does not use (rank below d) get no gain."""
        parts, owner, means, gains = [], [], [], []
        for unit in range(shares.shape[1]):
            basis = principal_axes(Moments.of(shares[:, unit : unit + 1]))
            rank = max(1, int((basis.variance[0] > 1e-10 * basis.variance[0, 0]).sum()))
            basis = Basis(basis.axes[:, :rank], basis.variance[:, :rank], basis.mean)
            count = kept_axes(basis, kept)
            parts.append(basis.axes[0, :count])
            gains.append(starting_gains(basis, count, start)[0])
            owner += [unit] * count
            means.append(basis.mean[0])
        return cls(torch.cat(parts).to(shares), torch.tensor(owner), torch.stack(means).to(shares), torch.cat(gains).to(shares))

    def along(self, shares: Float[Tensor, "clip unit d"]) -> Float[Tensor, "clip axis"]:
        """Coordinates of every unit's share about its mean."""
        parts = [
            (shares[:, unit] - self.mean[unit]) @ self.axes[self.unit == unit].T for unit in range(len(self.mean))
        ]  # one unit at a time: all differences at once would double the memory
        return torch.cat(parts, 1)


class ShareLearner:
    """Gains on direct shares; ``embeddings`` are those of the model as it is."""

    def __init__(
        self,
        basis: ShareBasis,
        embeddings: Float[Tensor, "clip d"],
        shares: Float[Tensor, "clip unit d"],
        mean: Literal["keep", "drop"] = "keep",
        gain: Float[Tensor, " axis"] | None = None,
    ) -> None:
        self.basis, self.along = basis, basis.along(shares)
        self.base = embeddings if mean == "keep" else embeddings - basis.mean.sum(0)
        self.gain = (basis.start if gain is None else gain).detach().clone().requires_grad_()
        self.parameters, self.neutral = [self.gain], [1.0]

    def _adapt(self, rows: Rows, gain: Float[Tensor, " axis"]) -> Float[Tensor, "row d"]:
        return self.base[rows] + (self.along[rows] * (gain - 1)) @ self.basis.axes

    def forward(self, rows: Rows) -> Float[Tensor, "row d"]:
        self._embedded = self._adapt(rows, self.gain)
        return self._embedded.detach()

    def backward(self, gradient: Float[Tensor, "row d"]) -> None:
        self._embedded.backward(gradient)

    def embed(self, rows: Rows) -> Float[Tensor, "row d"]:
        return self._adapt(rows, self.gain.detach())
