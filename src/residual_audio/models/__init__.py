"""Open any CLAP (and Whisper, AST) behind one protocol."""

from .encoder import BlockSite, Encoder, EncoderError
from .registry import KNOWN, KnownModel, load_encoder

__all__ = ["KNOWN", "BlockSite", "Encoder", "EncoderError", "KnownModel", "load_encoder"]
