"""Open any encoder that is registered (CLAP, Whisper, AST, vision towers) behind one protocol."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
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
    "Readout",
    "StageSite",
    "known_models",
    "load_encoder",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        **dict.fromkeys(("BlockSite", "Encoder", "EncoderError", "StageSite"), ".encoder"),
        **dict.fromkeys(("Loaded", "Loading"), ".loading"),
        **dict.fromkeys(("ENCODERS", "EncoderKind", "KnownModel", "known_models"), ".registry"),
        "Readout": ".readout",
        "load_encoder": ".opening",
    },
)
