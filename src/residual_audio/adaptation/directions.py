r"""A form as an equaliser shows it: directions with a gain each.

The change of a unit about its mean is $\sum_i (g_i - 1)\, w_i \langle r_i, z - \mu \rangle$: what lies along $r_i$ is written along $w_i$,
$g_i - 1$ times. Gains have $r = w$ = their axes; a symmetric matrix its eigenvectors, the learned axes; a full one its singular
vectors, turned so that a gain below one weakens ($\langle r_i, w_i \rangle \ge 0$).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from .gain import GainSet


class Directions(NamedTuple):
    """Of one unit: ``gain`` of every direction, what it ``read``s and what it is ``written`` along; orthonormal rows each."""

    gain: Float[Tensor, " i"]
    read: Float[Tensor, "i d"]
    written: Float[Tensor, "i d"]


def directions(gains: GainSet, unit: int) -> Directions:
    """Strongest change first where the directions are learned, the order of the axes where they are given."""
    axes, inside = gains.axes[unit].detach(), gains.tau * gains.inside()[unit].detach()
    if torch.equal(inside, inside.diagonal().diag()):
        found = Directions(1 + inside.diagonal(), axes, axes)
    elif torch.equal(inside, inside.mT):
        change, turned = torch.linalg.eigh(inside)
        order = change.abs().argsort(descending=True, stable=True)
        own = turned.mT[order] @ axes
        found = Directions(1 + change[order], own, own)
    else:
        left, change, right = torch.linalg.svd(inside)
        sign = torch.where((left.mT * right).sum(-1) < 0, -1.0, 1.0).to(change)
        found = Directions(1 + sign * change, right @ axes, sign[:, None] * (left.mT @ axes))
    return with_dropped(found, axes, gains.tau) if gains.truncated else found


def with_dropped(found: Directions, axes: Float[Tensor, "k d"], tau: float) -> Directions:
    """The axes outside the kept ones too, whose gain is zero (1 − τ at a strength below one)."""
    k, d = axes.shape
    outside = torch.linalg.qr(axes.mT, mode="complete").Q.mT[k:]
    gain = torch.full((d - k,), 1 - tau, dtype=axes.dtype, device=axes.device)
    return Directions(*(torch.cat(parts) for parts in zip(found, (gain, outside, outside), strict=True)))
