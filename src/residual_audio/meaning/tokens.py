r"""Where in a spectrogram a clip's score for a text is written: token-level direct shares onto the text's direction.

With everything held, the score is linear in every token that any unit writes: pull the text's direction t back through the joint
projection to g in the pooled space, through the merges to $q_p = P_p^\top g$ at each position of a merge group; a token u at group m,
position p adds $\omega_{m,p} \langle q_p, u \rangle$. A token of a later stage covers the cells of the tokens
that were merged into it.

Invariant: the map of all units and constants sums to the cosine of clip and text; a unit's map sums to its direct share of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..decomposition.joint import Held, JointWeights, joint_constant
from ..models import Encoder
from ..models.pathways import Pathways
from ..models.readings import DIRECT
from ..models.recording import Recording, recorded
from ..units import Unit


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

    def above(self, other: TokenMap, weights: Float[Tensor, "frequency time"]) -> Float[Tensor, "frequency time"]:
        """Where this clip writes more than another: a coarse token's surplus is spread in proportion to ``weights``.

        Sums to the difference of the two scores.
        """
        surplus = self.constant - other.constant
        for own, others in zip(self.maps, other.maps, strict=True):
            surplus = surplus + spread(own - others, tuple(surplus.shape), weights)
        return surplus

    @property
    def total(self) -> Float[Tensor, "frequency time"]:
        """All units and the constant: sums to the score."""
        return self.of() + self.constant


def spread(
    coarse: Float[Tensor, "f t"], shape: tuple[int, ...], weights: Float[Tensor, "frequency time"] | None = None
) -> Float[Tensor, "frequency time"]:
    """Each value dealt out to the cells it covers, evenly or in proportion to ``weights`` (none negative); the sum stays."""
    rows, columns = shape[0] // coarse.shape[0], shape[1] // coarse.shape[1]

    def over(values: Tensor) -> Tensor:
        return values.repeat_interleave(rows, 0).repeat_interleave(columns, 1)

    if weights is None:
        return over(coarse) / (rows * columns)
    total = over(weights.unflatten(0, (-1, rows)).unflatten(2, (-1, columns)).sum((1, 3)))
    return over(coarse) * torch.where(total > 0, weights / total.clamp_min(1e-30), 1 / (rows * columns))


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
    recording = recorded(encoder, features.to(encoder.device, encoder.dtype), longer.to(encoder.device), DIRECT)
    return map_of(recording, Pathways(encoder), direction)


def map_of(recording: Recording, ways: Pathways, direction: Float[Tensor, " joint"]) -> TokenMap:
    """Of the one clip of a recording that keeps ``DIRECT``."""
    embedding, units = recording.embedding[0], ways.encoder.units
    direction = direction.to(embedding) / embedding.norm()
    held = ways.encoder.readout.hold(recording.pooled)
    back = pull_back(direction, ways.joint, held)[0]
    weights = [w[0] for w in ways.weights(recording)]
    pulled = [torch.einsum("pod,o->pd", maps, back) for maps in ways.maps]
    maps = [unfolded(ways, 0, token_scores(recording.first_stream[0], ways.orders[0], weights[0], pulled[0]))]
    for site in ways.encoder.sites:
        s, projection = site.stage, ways.encoder.linear(site.projection)
        bias = (weights[s] * (pulled[s] @ projection.bias)).flatten() / site.heads
        through = (pulled[s] @ projection.weight).unflatten(-1, (site.heads, -1))
        split = recording.heads[site.key][0].unflatten(-1, (site.heads, -1))
        for h in range(site.heads):
            maps.append(unfolded(ways, s, token_scores(split[:, h], ways.picks[site.key], weights[s], through[:, h]) + bias))
        maps.append(unfolded(ways, s, token_scores(recording.mlps[site.key][0], ways.orders[s], weights[s], pulled[s])))
    constant = biases(ways, weights, pulled, back, direction, held)
    grids = [spread(unfolded(ways, s, grouped), maps[0].shape) for s, grouped in enumerate(constant) if grouped is not None]
    return TokenMap(tuple(units), maps, torch.stack(grids).sum(0), float(F.cosine_similarity(embedding, direction, dim=0)))


def unfolded(ways: Pathways, stage: int, grouped: Float[Tensor, " token"]) -> Float[Tensor, "frequency time"]:
    """From group layout to the spectrogram's axes."""
    tokens = torch.empty_like(grouped)
    tokens[ways.orders[stage]] = grouped
    return tokens[ways.spectrogram(stage)]


def biases(
    ways: Pathways, weights: list[Tensor], pulled: list[Tensor], back: Tensor, direction: Tensor, held: Held | None
) -> list[Tensor | None]:  # fmt: skip
    """What no unit wrote, by stage in group layout: merges' biases where they are written, the readout's evenly over what it pools."""
    stages: list[Tensor | None] = [None]
    for s, merge in enumerate(ways.merges):
        stages.append((weights[s + 1] * (pulled[s + 1] @ (merge.linear @ merge.norm.bias))).flatten())
    end = ways.final.bias @ back
    if ways.joint is not None and held is not None:
        nothing = torch.zeros_like(ways.final.bias)[None]
        end = end + joint_constant(nothing, ways.joint, held)[0] @ direction
    readout = end * ways.pool[ways.orders[-1]]
    stages[-1] = readout if stages[-1] is None else stages[-1] + readout
    return stages
