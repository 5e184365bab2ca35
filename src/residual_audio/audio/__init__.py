"""File → mono waveform → log-mel, deterministic, one policy object recorded in every run."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .decode import AudioSource, Renderable, Waveform, as_sources, duration, read
    from .mel import MelSpec, log_mel, mel_filters
    from .policy import Prepared, Preprocessing

__all__ = [
    "AudioSource",
    "MelSpec",
    "Prepared",
    "Preprocessing",
    "Renderable",
    "Waveform",
    "as_sources",
    "duration",
    "log_mel",
    "mel_filters",
    "read",
]

# Lazily: whoever only decodes (a small process of its own in `serve`) does not wait for torch.
__getattr__, __dir__ = lazily(
    __name__,
    {
        **dict.fromkeys(("AudioSource", "Renderable", "Waveform", "as_sources", "duration", "read"), ".decode"),
        **dict.fromkeys(("MelSpec", "log_mel", "mel_filters"), ".mel"),
        **dict.fromkeys(("Prepared", "Preprocessing"), ".policy"),
    },
)
