"""What encoders without patch merging share: their blocks all have one resolution, so they form a single stage."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from ..units import UnitTable
from .encoder import BlockSite, Encoder

# Cosines of encoders that were never trained to match texts have no scale of their own; this is CLIP's initial one.
NEUTRAL_LOGIT_SCALE = 1 / 0.07


def one_stage(blocks: int, heads: int, width: int) -> UnitTable:
    return UnitTable(heads=((heads,) * blocks,), d_head=(width // heads,), d_model=(width,))


def isotropic_site(block: int, heads: int, attention: str, projection: str, mlp: str, entry: str, blocks: str = "layers") -> BlockSite:
    path = f"{blocks}.{block}"
    return BlockSite(0, block, heads, path, f"{path}.{attention}", f"{path}.{attention}.{projection}", f"{path}.{mlp}", f"{path}.{entry}")


class IsotropicEncoder(Encoder):
    """What encoders of one resolution share: how a block is called."""

    def run_block(self, site: BlockSite, stream: Float[Tensor, "clip token width"]) -> Float[Tensor, "clip kept width"]:
        """As many tokens come out as went in, unless some are dropped on the way (:func:`dropping`)."""
        after: Tensor = self.module.get_submodule(site.module)(stream, None)
        return after
