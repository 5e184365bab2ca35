"""Open any encoder that is registered (CLAP, Whisper, AST, vision towers) behind one protocol."""

from ..media import MediaError
from .encoder import BlockSite, Encoder, EncoderError, StageSite
from .loading import Loaded, Loading
from .opening import load_encoder
from .readout import Readout
from .registry import ENCODERS, EncoderKind, KnownModel, known_models

__all__ = [
    "ENCODERS",
    "BlockSite",
    "Encoder",
    "EncoderError",
    "EncoderKind",
    "KnownModel",
    "Loaded",
    "Loading",
    "MediaError",
    "Readout",
    "StageSite",
    "known_models",
    "load_encoder",
]
