"""The units and sites of HTS-AT as transformers implements it; shared by LAION's and Microsoft's CLAP."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor
from transformers.models.clap.modeling_clap import ClapAudioModel

from ..units import UnitTable
from .encoder import BlockSite, Encoder, StageSite


def htsat_units(model: ClapAudioModel) -> UnitTable:
    """One stage per resolution; every number is read off the modules."""
    stages = [[block.attention.self for block in stage.blocks] for stage in model.audio_encoder.layers]
    return UnitTable(
        heads=tuple(tuple(attention.num_attention_heads for attention in stage) for stage in stages),
        d_head=tuple(stage[0].attention_head_size for stage in stages),
        d_model=tuple(stage[0].all_head_size for stage in stages),
    )


def htsat_sites(model: ClapAudioModel, prefix: str) -> tuple[BlockSite, ...]:
    """Sites below ``prefix``, the path of ``model`` in the encoder's module."""
    sites = []
    for s, stage in enumerate(model.audio_encoder.layers):
        for b, block in enumerate(stage.blocks):
            path = f"{prefix}.audio_encoder.layers.{s}.blocks.{b}"
            sites.append(
                BlockSite(
                    stage=s,
                    block=b,
                    heads=block.attention.self.num_attention_heads,
                    module=path,
                    attention=f"{path}.attention",
                    projection=f"{path}.attention.output.dense",
                    mlp=f"{path}.output",
                    entry=f"{path}.layernorm_before",
                    window=min(block.window_size, *block.input_resolution),
                    shift=block.shift_size if min(block.input_resolution) > block.window_size else 0,
                )
            )
    return tuple(sites)


def htsat_stages(model: ClapAudioModel, prefix: str) -> tuple[StageSite, ...]:
    """The grids between the patch merges."""
    encoder, path = model.audio_encoder, f"{prefix}.audio_encoder.layers"
    return tuple(
        StageSite(tuple(grid), f"{path}.{s}.downsample.norm", f"{path}.{s}.downsample.reduction")
        if stage.downsample is not None
        else StageSite(tuple(grid))
        for s, (stage, grid) in enumerate(zip(encoder.layers, encoder.input_resolutions, strict=True))
    )


class HtsatEncoder(Encoder):
    """What encoders around transformers' HTS-AT share: how a block is called."""

    def run_block(self, site: BlockSite, stream: Float[Tensor, "clip token width"]) -> Float[Tensor, "clip token width"]:
        after: Tensor = self.module.get_submodule(site.module)(stream, self.stages[site.stage].grid)[0]
        return after
