"""What is read off a recording: pure functions of what one pass left behind."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..decomposition.direct import constant_share, head_shares, stream_shares, weighted_positions, written_everywhere
from ..decomposition.joint import Held, JointWeights, joint_constant, joint_shares
from ..spectra import Moments
from ..units import Unit, UnitTable
from .pathways import Pathways
from .recording import Keep, Recording

# What direct shares need of a pass.
DIRECT = Keep(heads="tokens", mlps="tokens", ends="tokens", input=True)


def pooled_heads(recording: Recording, units: UnitTable) -> Float[Tensor, "clip head d_head"]:
    """The mean over tokens of every head's output, in the table's order."""
    parts = [recording.heads[s, b].mean(1).unflatten(-1, (units.heads[s][b], -1)) for s, b in units.blocks]
    return torch.cat(parts, 1)


def token_moments(recording: Recording, units: UnitTable) -> Moments:
    """Moments of every head's output over all tokens, in the table's order."""
    return Moments.joined([recording.moments[block] for block in units.blocks])


def mlp_means(recording: Recording, units: UnitTable, stage: int) -> Float[Tensor, "clip block width"]:
    """The mean over tokens of what each MLP of a stage writes."""
    return torch.stack([recording.mlps[block].mean(1) for block in units.blocks if block[0] == stage], 1)


def entry_means(recording: Recording, units: UnitTable, stage: int) -> Float[Tensor, "clip block width"]:
    """The mean over tokens of the stream that enters each block of a stage."""
    return torch.stack([recording.entries[block].mean(1) for block in units.blocks if block[0] == stage], 1)


def end_mean(recording: Recording, units: UnitTable, stage: int) -> Float[Tensor, "clip width"]:
    """The mean over tokens of the stream that leaves a stage."""
    tokens: Tensor = recording.ends[stage].mean(1).unflatten(-1, (-1, units.d_model[stage]))
    return tokens.mean(1)


def attention_sketches(recording: Recording, units: UnitTable, stage: int) -> Float[Tensor, "clip head size"]:
    """The sketched attention matrices of a stage's heads, block by block."""
    return torch.cat([recording.attention[block].sketch for block in units.blocks if block[0] == stage], 1)


def attention_reach(recording: Recording, units: UnitTable) -> Float[Tensor, "clip head what"]:
    """How evenly and how far every head looks (:data:`.attention.REACH`), in the table's order."""
    return torch.cat([recording.attention[block].reach for block in units.blocks], 1)


@dataclass(frozen=True)
class DirectShares:
    """Exact shares of the pooled output, units in the table's order, the constant, and what is held of the joint projection.

    Invariant: ``units.sum(1) + constant`` is the pooled output; :meth:`joint` sums to the embedding.
    """

    units: Float[Tensor, "clip unit d"]
    constant: Float[Tensor, "clip d"]
    held: Held | None

    def joint(self, weights: JointWeights | None) -> tuple[Float[Tensor, "clip unit joint"], Float[Tensor, "clip joint"]]:
        """The same of the embedding, through the held projection."""
        if weights is None or self.held is None:
            return self.units, self.constant
        return joint_shares(self.units, weights, self.held), joint_constant(self.constant, weights, self.held)


def direct_shares(recording: Recording, ways: Pathways) -> DirectShares:
    """Of a recording that keeps :data:`DIRECT`."""
    weights = ways.weights(recording)
    shares = [stream_shares(weighted_positions(recording.first_stream, ways.orders[0], weights[0]), ways.maps[0])[:, None]]
    for site in ways.encoder.sites:
        stage = site.stage
        bias_share = written_everywhere(ways.encoder.linear(site.projection).bias, weights[stage], ways.maps[stage])
        summed = weighted_positions(recording.heads[site.key], ways.picks[site.key], weights[stage])
        shares.append(head_shares(summed, ways.head_maps[site.key], bias_share))
        summed = weighted_positions(recording.mlps[site.key], ways.orders[stage], weights[stage])
        shares.append(stream_shares(summed, ways.maps[stage])[:, None])
    constant = constant_share(ways.merges, ways.final, weights, ways.maps, ways.pool)
    return DirectShares(torch.cat(shares, 1), constant, ways.encoder.readout.hold(recording.pooled))


def head_map(recording: Recording, ways: Pathways, unit: Unit) -> Float[Tensor, "clip frequency time d_head"]:
    """One head's outputs, un-shifted and un-windowed, on the spectrogram's axes."""
    site = ways.site((unit.stage, unit.block))
    tokens: Tensor = recording.heads[site.key].unflatten(-1, (site.heads, -1))[:, :, unit.head]
    return tokens[:, ways.spectrogram(unit.stage, site)]
