"""Open any CLAP (and Whisper, AST, CLIP, ViT, DINOv2) behind one protocol."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .encoder import BlockSite, Encoder, EncoderError, ReadoutSite, StageSite
    from .registry import KNOWN, KnownModel, load_encoder

__all__ = ["KNOWN", "BlockSite", "Encoder", "EncoderError", "KnownModel", "ReadoutSite", "StageSite", "load_encoder"]

__getattr__, __dir__ = lazily(
    __name__,
    {
        **dict.fromkeys(("BlockSite", "Encoder", "EncoderError", "ReadoutSite", "StageSite"), ".encoder"),
        **dict.fromkeys(("KNOWN", "KnownModel", "load_encoder"), ".registry"),
    },
)
