"""File → mono waveform → log-mel, deterministic, one policy object recorded in every run."""

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
