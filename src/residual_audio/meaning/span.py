r"""The subspace in which a unit's shares vary: everything that chooses words for the unit happens there."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Span:
    """Orthonormal principal ``axes``, and every clip's ``scores`` on them, about the mean. ``total``: the sum of all squares.

    Scores on different axes are uncorrelated, so all second moments are in ``second``.
    """

    axes: Float[Tensor, "axis d"]
    scores: Float[Tensor, "clip axis"]
    total: float

    @property
    def second(self) -> Float[Tensor, " axis"]:
        """The sum of squares along each axis."""
        return self.scores.square().sum(0)

    @property
    def ratio(self) -> Float[Tensor, " axis"]:
        """Each axis's share of the variance."""
        return self.second / self.total

    def drawn(self, clips: Int[Tensor, " draw"]) -> Span:
        """The same subspace with the clips that a resample drew, about their own mean, and turned to its principal axes."""
        scores = self.scores[clips] - self.scores[clips].mean(0)
        _, turn = torch.linalg.eigh(scores.T @ scores)
        return Span(turn.T @ self.axes, scores @ turn, float(scores.square().sum()))


def principal_span(shares: Float[Tensor, "clip d"], share: float = 0.99) -> Span:
    """The leading principal axes with at least ``share`` of the variance; no axis at all for a unit that does not vary."""
    centred = shares.double() - shares.double().mean(0)
    total = float(centred.square().sum())
    if total <= 1e-12 * float(shares.double().square().sum()):
        return Span(centred.new_zeros(0, shares.shape[1]), centred.new_zeros(len(shares), 0), 0.0)
    _, singular, axes = torch.linalg.svd(centred, full_matrices=False)
    reached = singular.square().cumsum(0) / singular.square().sum()
    count = min(int((reached < share).sum()) + 1, len(singular))
    return Span(axes[:count], centred @ axes[:count].T, total)
