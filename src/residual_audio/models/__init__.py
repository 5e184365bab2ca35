"""Open any CLAP (and Whisper, AST) behind one protocol."""

from ..media import MediaError
from .encoder import BlockSite, Encoder, EncoderError, ReadoutSite, StageSite
from .registry import KNOWN, KnownModel, load_encoder

__all__ = ["KNOWN", "BlockSite", "Encoder", "EncoderError", "KnownModel", "MediaError", "ReadoutSite", "StageSite", "load_encoder"]
