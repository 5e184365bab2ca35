"""From every token that a unit writes to the embedding: the index vectors and matrices of one encoder, made once for many batches.

Everything is derived from the encoder's weights as they are when it is first needed.
"""

from __future__ import annotations

from functools import cached_property

from jaxtyping import Float, Int
from torch import Tensor

from ..decomposition.direct import Merge, Norm, head_maps, held_scale, position_maps, token_weights
from ..decomposition.joint import JointWeights
from ..decomposition.layout import group_order, to_groups, to_spectrogram
from .encoder import BlockSite, Encoder
from .readout import norm_weights
from .recording import Block, Recording


class Pathways:
    """Of one encoder. Token maps in group layout: see :mod:`residual_audio.decomposition.direct`."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    @cached_property
    def final(self) -> Norm:
        """The readout's norm."""
        return norm_weights(self.encoder.readout.final_norm)

    @cached_property
    def merges(self) -> list[Merge]:
        names = [(s.merge_norm, s.merge_linear) for s in self.encoder.stages]
        return [
            Merge(norm_weights(self.encoder.layer_norm(norm)), self.encoder.linear(linear).weight.detach())
            for norm, linear in names
            if norm is not None and linear is not None
        ]

    @cached_property
    def maps(self) -> list[Float[Tensor, "_ out _"]]:
        """Per stage, from a token at each position of its merge group to the pooled output."""
        return position_maps(self.merges, self.final)

    @cached_property
    def orders(self) -> list[Int[Tensor, " _"]]:
        """Per stage, its tokens in group layout."""
        return [group_order(stage.grid, len(self.merges) - i) for i, stage in enumerate(self.encoder.stages)]

    @cached_property
    def pool(self) -> Float[Tensor, " token"]:
        """The readout's weight of each token of the last stage."""
        rows, columns = self.encoder.stages[-1].grid
        return self.encoder.readout.pool_weights(rows * columns)

    @cached_property
    def picks(self) -> dict[Block, Int[Tensor, " _"]]:
        """For each block, from its attention's window layout to group layout."""
        return {
            s.key: to_groups(self.encoder.stages[s.stage].grid, s.window, s.shift, len(self.merges) - s.stage) for s in self.encoder.sites
        }

    @cached_property
    def head_maps(self) -> dict[Block, Float[Tensor, "_ _ out"]]:
        """For each block, from a head's weighted output at each position to the pooled output."""
        return {
            s.key: head_maps(self.maps[s.stage], self.encoder.linear(s.projection).weight.detach(), s.heads) for s in self.encoder.sites
        }

    @cached_property
    def joint(self) -> JointWeights | None:
        """The projection into the joint space, or None where the pooled output is the embedding."""
        return self.encoder.readout.joint_weights()

    def site(self, block: Block) -> BlockSite:
        return next(s for s in self.encoder.sites if s.key == block)

    def weights(self, recording: Recording) -> list[Float[Tensor, "clip _ _"]]:
        """ω of every stage: what the norms of this pass, held, and the pooling make of each token."""
        last = len(self.encoder.stages) - 1
        scales = [held_scale(recording.ends[i], merge.norm.eps) for i, merge in enumerate(self.merges)]
        return token_weights(scales, self.orders, held_scale(recording.ends[last], self.final.eps), self.pool)

    def spectrogram(self, stage: int, site: BlockSite | None = None) -> Int[Tensor, "frequency time"]:
        """Which token of a stage lies where on the spectrogram; with ``site``, of its attention's window layout."""
        window, shift = (site.window, site.shift) if site is not None else (0, 0)
        return to_spectrogram(self.encoder.stages[stage].grid, self.encoder.strips, window, shift)
