r"""Where in a spectrogram a clip's score for a text is written: token-level direct shares onto the text's direction.

With everything held, the score is linear in every token that any unit writes: pull the text's direction t back through the joint
projection to g in the pooled space, through the merges to $q_p = P_p^\top g$ at each position of a merge group; a token u at group m,
position p adds $\omega_{m,p} \langle q_p, u \rangle$. A token of a later stage covers the cells of the tokens
that were merged into it.

Invariant: the map of all units and constants sums to the cosine of clip and text; a unit's map sums to its direct share of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..decomposition.direct import held_scale, token_weights
from ..decomposition.joint import Held, JointWeights, hold, joint_constant
from ..decomposition.layout import to_spectrogram
from ..extraction.capture import Capture, joint_activation
from ..models import BlockSite, Encoder
from ..models.recording import Look, record
from ..units import INPUT, Unit


@dataclass(frozen=True)
class TokenMap:
    """Of one clip and one text. ``units`` in the table's order; ``constant``: the norms' and projections' biases, where they are written.

    ``maps[u]`` has the resolution of the unit's own stage; all unfold to the same spectrogram.
    """

    units: tuple[Unit, ...]
    maps: list[Float[Tensor, "_ _"]]
    constant: Float[Tensor, "frequency time"]
    score: float

    def of(self, *chosen: Unit) -> Float[Tensor, "frequency time"]:
        """The sum of some units' maps (none: all) without the constant, on the finest grid; a coarse token is spread over its cells."""
        total = torch.zeros_like(self.constant)
        for unit in chosen or self.units:
            total = total + spread(self.maps[self.units.index(unit)], total.shape)
        return total

    @property
    def total(self) -> Float[Tensor, "frequency time"]:
        """All units and the constant: sums to the score."""
        return self.of() + self.constant


def spread(coarse: Float[Tensor, "f t"], shape: tuple[int, ...]) -> Float[Tensor, "frequency time"]:
    """Each value dealt out evenly to the cells it covers; the sum stays."""
    rows, columns = shape[0] // coarse.shape[0], shape[1] // coarse.shape[1]
    return coarse.repeat_interleave(rows, 0).repeat_interleave(columns, 1) / (rows * columns)


def pull_back(direction: Float[Tensor, " joint"], joint: JointWeights | None, held: Held | None) -> Float[Tensor, "clip d"]:
    """g of every clip, with ⟨g, x⟩ = ⟨direction, joint share of x⟩."""
    if joint is None or held is None:
        return direction[None]
    t = direction.expand(len(held.scale), -1)
    if joint.norm is None:
        return (held.ratio * (t @ joint.second)) @ joint.first
    t = t * joint.norm.weight * held.scale[:, None]
    t = t - t.mean(-1, keepdim=True)
    return (t + held.ratio * (t @ joint.second)) @ joint.first


def token_scores(
    tokens: Float[Tensor, "token d"],
    pick: Int[Tensor, " token"],
    weights: Float[Tensor, "group position"],
    pulled: Float[Tensor, "position d"],
) -> Float[Tensor, " token"]:
    """ω ⟨q_p, u⟩ of every token of one clip, in group layout. ``pick`` brings the tokens into it."""
    grouped = tokens[pick].unflatten(0, weights.shape)
    return (weights * torch.einsum("gpd,pd->gp", grouped, pulled)).flatten()


@torch.inference_mode()
def token_map(
    encoder: Encoder, features: Float[Tensor, "1 channel frame mel"], longer: Bool[Tensor, " 1"], direction: Float[Tensor, " joint"]
) -> TokenMap:
    """Run one clip and lay every unit's share of its cosine with ``direction`` (unit length) over the spectrogram."""
    plan = Capture(encoder, ())
    heads: dict[tuple[int, int], Tensor] = {}
    mlps: dict[tuple[int, int], Tensor] = {}
    ends: dict[int, Tensor] = {}
    first: list[Tensor] = []
    pooled: list[Tensor] = []

    def see(into: dict[tuple[int, int], Tensor], site: BlockSite, x: Tensor) -> None:
        into[site.stage, site.block] = x.reshape(-1, x.shape[-1])

    def see_entry(site: BlockSite, x: Tensor) -> None:
        if not first:
            first.append(x.reshape(-1, x.shape[-1]))

    looks: dict[str, Look] = {}
    for i, stage in enumerate(encoder.stages):
        looks[stage.merge_norm or encoder.readout.norm] = partial(ends.__setitem__, i)
    if encoder.readout.linear1:
        looks[encoder.readout.linear1] = pooled.append
    with record(
        encoder, heads=lambda s, z: see(heads, s, z), mlp=lambda s, m: see(mlps, s, m), entry=see_entry, inputs=looks
    ):  # fmt: skip
        embedding = encoder.encode(features.to(encoder.device, encoder.dtype), longer.to(encoder.device))
    direction = direction.to(embedding) / embedding.norm()
    held = None if plan.joint is None else hold(pooled[0], plan.joint, joint_activation(encoder))
    back = pull_back(direction, plan.joint, held)[0]
    last = len(encoder.stages) - 1
    scales = [held_scale(ends[i], merge.norm.eps) for i, merge in enumerate(plan.merges)]
    weights = [w[0] for w in token_weights(scales, plan.orders, held_scale(ends[last], plan.final.eps), plan.pool)]
    pulled = [torch.einsum("pod,o->pd", maps, back) for maps in plan.maps]

    def unfolded(stage: int, grouped: Tensor) -> Tensor:
        """From group layout to the spectrogram's axes."""
        tokens = torch.empty_like(grouped)
        tokens[plan.orders[stage]] = grouped
        return tokens[to_spectrogram(encoder.stages[stage].grid, encoder.strips)]

    units: list[Unit] = [INPUT]
    maps = [unfolded(0, token_scores(first[0], plan.orders[0], weights[0], pulled[0]))]
    for site in encoder.sites:
        key, s = (site.stage, site.block), site.stage
        projection = cast(nn.Linear, encoder.module.get_submodule(site.projection))
        bias = (weights[s] * (pulled[s] @ projection.bias)).flatten() / site.heads
        through = (pulled[s] @ projection.weight).unflatten(-1, (site.heads, -1))
        split = heads[key].unflatten(-1, (site.heads, -1))
        for h in range(site.heads):
            maps.append(unfolded(s, token_scores(split[:, h], plan.picks[key], weights[s], through[:, h]) + bias))
            units.append(Unit(s, site.block, "head", h))
        maps.append(unfolded(s, token_scores(mlps[key], plan.orders[s], weights[s], pulled[s])))
        units.append(Unit(s, site.block, "mlp"))
    constant = biases(plan, weights, pulled, back, direction, held)
    grids = [spread(unfolded(s, grouped), maps[0].shape) for s, grouped in enumerate(constant) if grouped is not None]
    return TokenMap(tuple(units), maps, torch.stack(grids).sum(0), float(F.cosine_similarity(embedding[0], direction, dim=0)))


def biases(
    plan: Capture, weights: list[Tensor], pulled: list[Tensor], back: Tensor, direction: Tensor, held: Held | None
) -> list[Tensor | None]:  # fmt: skip
    """What no unit wrote, by stage in group layout: merges' biases where they are written, the readout's evenly over what it pools."""
    stages: list[Tensor | None] = [None]
    for s, merge in enumerate(plan.merges):
        stages.append((weights[s + 1] * (pulled[s + 1] @ (merge.linear @ merge.norm.bias))).flatten())
    end = plan.final.bias @ back
    if plan.joint is not None and held is not None:
        nothing = torch.zeros_like(plan.final.bias)[None]
        end = end + joint_constant(nothing, plan.joint, held)[0] @ direction
    readout = end * plan.pool[plan.orders[-1]]
    stages[-1] = readout if stages[-1] is None else stages[-1] + readout
    return stages
