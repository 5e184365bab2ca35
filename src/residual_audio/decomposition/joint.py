r"""Shares of the pooled output → shares of the joint embedding, with the projection's nonlinearity held.

An activation with act(0) = 0 is held by its ratio ρ = act(x)/x, a norm by its 1/σ; both are then linear.
Invariant: Σ joint shares + joint constant = joint embedding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from .direct import Norm, held_scale


@dataclass(frozen=True)
class JointWeights:
    """``mlp``: W₂·act(W₁x + b₁) + b₂. ``residual`` (``norm`` is given): LN(e + W₂·act(e)), e = W₁x.

    A linear projection is an ``mlp`` whose activation and W₂ are the identity, so that nothing else needs to know of it.
    """

    first: Float[Tensor, "hidden d"]
    second: Float[Tensor, "joint hidden"]
    first_bias: Float[Tensor, " hidden"] | None = None
    second_bias: Float[Tensor, " joint"] | None = None
    norm: Norm | None = None


@dataclass(frozen=True)
class Held:
    """What is held of one forward pass: ρ of every hidden channel, and 1/σ of the last norm (1 where there is none)."""

    ratio: Float[Tensor, "clip hidden"]
    scale: Float[Tensor, " clip"]


def hold(pooled: Float[Tensor, "clip d"], weights: JointWeights, act: Callable[[Tensor], Tensor]) -> Held:
    """Read off ρ and 1/σ at this pooled output."""
    hidden = pooled @ weights.first.T
    if weights.first_bias is not None:
        hidden = hidden + weights.first_bias
    ratio = torch.where(hidden == 0, torch.zeros_like(hidden), act(hidden) / hidden)
    if weights.norm is None:
        return Held(ratio, torch.ones_like(pooled[:, 0]))
    mixed = hidden + (ratio * hidden) @ weights.second.T
    return Held(ratio, held_scale(mixed, weights.norm.eps))


def joint_shares(shares: Float[Tensor, "clip unit d"], weights: JointWeights, held: Held) -> Float[Tensor, "clip unit joint"]:
    """Each unit's share of the joint embedding."""
    hidden = shares @ weights.first.T
    through = (held.ratio[:, None] * hidden) @ weights.second.T
    if weights.norm is None:
        return through
    mixed = hidden + through
    mixed = mixed - mixed.mean(-1, keepdim=True)
    return mixed * held.scale[:, None, None] * weights.norm.weight


def joint_constant(constant: Float[Tensor, "clip d"], weights: JointWeights, held: Held) -> Float[Tensor, "clip joint"]:
    """The constant term, with the projection's own biases."""
    total = joint_shares(constant[:, None], weights, held)[:, 0]
    if weights.first_bias is not None:
        total = total + (held.ratio * weights.first_bias) @ weights.second.T
    if weights.second_bias is not None:
        total = total + weights.second_bias
    return total if weights.norm is None else total + weights.norm.bias
