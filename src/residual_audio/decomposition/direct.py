r"""Every unit's exact share of the pooled output, through patch merging, with each norm's 1/σ held.

A merge is concat → LayerNorm → linear. With 1/σ held at the value of the recorded forward pass it is linear plus a
constant, so a token's way to the pooled output is one scalar (the product of the 1/σ it meets and the pooling
weight) times one matrix, which depends only on the token's position inside its merge group. Hence the cheap form:
weight and sum a unit's tokens per position, then apply one small matrix.

.. math:: \text{share}(u) = \sum_p P_p \sum_m \omega_{m,p}\, u_{m,p}, \qquad
          \sum_u \text{share}(u) + \text{constant} = \text{pooled output}

Token maps come in group layout ``[clip, group, position, d]``: groups are the last stage's tokens, and a position
refines the next stage's position by four, innermost merge fastest (:func:`.layout.group_order`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .heads import head_weights


@dataclass(frozen=True)
class Norm:
    """A LayerNorm's parameters."""

    weight: Float[Tensor, " d"]
    bias: Float[Tensor, " d"]
    eps: float


@dataclass(frozen=True)
class Merge:
    """A patch merge: the norm over four concatenated tokens and the linear layer behind it."""

    norm: Norm
    linear: Float[Tensor, "d_next d_four"]


def held_scale(stream: Float[Tensor, "*token d"], eps: float) -> Float[Tensor, "*token"]:
    """1/σ of a LayerNorm at this input."""
    return torch.rsqrt(stream.var(-1, unbiased=False) + eps)


def centring(matrix: Float[Tensor, "out d"]) -> Float[Tensor, "out d"]:
    """``matrix @ (x − mean(x))`` as one matrix."""
    return matrix - matrix.mean(1, keepdim=True)


def position_maps(merges: list[Merge], final: Norm) -> list[Float[Tensor, "_ out _"]]:
    """P of every stage: the matrix from a token at each position of its group to the pooled output, scalars left out."""
    maps = [centring(torch.diag(final.weight))[None]]
    for merge in reversed(merges):
        through = maps[0] @ centring(merge.linear * merge.norm.weight)
        d = merge.linear.shape[1] // 4
        maps.insert(0, through.unflatten(2, (4, d)).permute(0, 2, 1, 3).flatten(0, 1))
    return maps


def token_weights(
    scales: list[Float[Tensor, "clip _"]],
    orders: list[Int[Tensor, " _"]],
    final_scale: Float[Tensor, "clip token"],
    pool: Float[Tensor, " token"],
) -> list[Float[Tensor, "clip group _"]]:
    """ω of every stage. ``scales[s]`` is 1/σ of the merge that ends stage s, over the tokens of stage s + 1 in grid order;
    ``orders[s]`` lists the tokens of stage s by group (:func:`.layout.group_order`); ``pool`` weights the last tokens."""
    weights = [(final_scale * pool)[..., None]]
    for s in reversed(range(len(scales))):
        outer = weights[0]
        held = scales[s][:, orders[s + 1]].view(outer.shape)
        weights.insert(0, (outer * held).repeat_interleave(4, dim=-1))
    return weights


def weighted_positions(
    tokens: Float[Tensor, "clip token d"], pick: Int[Tensor, " token"], weights: Float[Tensor, "clip group position"]
) -> Float[Tensor, "clip position d"]:
    """Σ over groups of ω · u, one vector per position. ``pick`` brings the tokens into group layout."""
    clips, groups, positions = weights.shape
    grouped = tokens[:, pick].view(clips, groups, positions, -1)
    return (grouped * weights[..., None]).sum(1)


def stream_shares(summed: Float[Tensor, "clip position d"], maps: Float[Tensor, "position out d"]) -> Float[Tensor, "clip out"]:
    """The share of a unit that writes into the stream itself (an MLP, the embedding)."""
    return torch.einsum("cpd,pod->co", summed, maps)


def head_maps(
    maps: Float[Tensor, "position out d"], out_weight: Float[Tensor, "d head_x_d_head"], heads: int
) -> Float[Tensor, "head position_x_d_head out"]:
    """From a head's weighted output at each position straight to the pooled output."""
    slices = head_weights(out_weight, heads)
    return torch.einsum("pod,hdk->hpko", maps, slices).flatten(1, 2)


def head_shares(
    summed: Float[Tensor, "clip position head_x_d_head"],
    through: Float[Tensor, "head position_x_d_head out"],
    bias_share: Float[Tensor, "clip out"],
) -> Float[Tensor, "clip head out"]:
    """The share of each head of a block; the projection's bias is split evenly among its heads."""
    heads = through.shape[0]
    per_head = summed.unflatten(-1, (heads, -1)).permute(2, 0, 1, 3).flatten(2)
    return torch.bmm(per_head, through).transpose(0, 1) + bias_share[:, None] / heads


def written_everywhere(
    vector: Float[Tensor, " d"], weights: Float[Tensor, "clip group position"], maps: Float[Tensor, "position out d"]
) -> Float[Tensor, "clip out"]:
    """The share of one vector that is written into every token of a stage (a bias)."""
    return torch.einsum("cp,po->co", weights.sum(1), maps @ vector)


def constant_share(
    merges: list[Merge],
    final: Norm,
    weights: list[Float[Tensor, "clip group _"]],
    maps: list[Float[Tensor, "_ out _"]],
    pool: Float[Tensor, " token"],
) -> Float[Tensor, "clip out"]:
    """What no unit wrote: the norms' biases, carried to the pooled output."""
    total = (final.bias * pool.sum()).expand(len(weights[-1]), -1)
    for s, merge in enumerate(merges):
        total = total + written_everywhere(merge.linear @ merge.norm.bias, weights[s + 1], maps[s + 1])
    return total
