"""Open any CLAP (and Whisper, AST) behind one protocol."""

from ..audio import AudioError
from .encoder import BlockSite, Encoder, EncoderError, ReadoutSite, StageSite
from .registry import KNOWN, KnownModel, load_encoder

__all__ = ["KNOWN", "AudioError", "BlockSite", "Encoder", "EncoderError", "KnownModel", "ReadoutSite", "StageSite", "load_encoder"]
