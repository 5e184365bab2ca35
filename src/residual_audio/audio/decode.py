"""Any audio file, array or rendered sound → one mono waveform, the same bits every time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import soundfile
import soxr

from ..media import MediaError

# Read beyond the end of a crop so that the resampler's filter sees what follows it.
MARGIN_SECONDS = 0.1


@dataclass(frozen=True)
class Waveform:
    """Samples ``[frame]`` or ``[frame, channel]`` and their rate in Hz."""

    samples: np.ndarray
    sample_rate: int


@runtime_checkable
class Renderable(Protocol):
    """Anything that can make its own waveform, such as a synthetic sound."""

    def waveform(self) -> Waveform: ...


AudioSource = str | Path | Waveform | Renderable


def to_mono(waveform: Waveform, name: str = "waveform") -> np.ndarray:
    """Mean over channels, before anything else is done; float32; checked to be finite and not empty."""
    samples = np.asarray(waveform.samples)
    if np.issubdtype(samples.dtype, np.integer):
        samples = samples.astype(np.float64) / (np.iinfo(samples.dtype).max + 1)
    if samples.ndim == 2:
        samples = samples.mean(axis=1)
    if samples.ndim != 1:
        raise MediaError(f"{name}: expected [frame] or [frame, channel], got shape {samples.shape}")
    if samples.size == 0:
        raise MediaError(f"{name}: holds no samples")
    if not np.isfinite(samples).all():
        bad = int((~np.isfinite(samples)).sum())
        raise MediaError(f"{name}: {bad} of {samples.size} samples are NaN or infinite; re-export the file")
    return samples.astype(np.float32, copy=False)


def resample(samples: np.ndarray, source_rate: int, target_rate: int) -> np.ndarray:
    """High-quality resampling by soxr; the identity when the rates are equal."""
    if source_rate <= 0:
        raise MediaError(f"a sample rate of {source_rate} Hz makes no sense")
    if source_rate == target_rate:
        return samples
    return soxr.resample(samples, source_rate, target_rate, quality="HQ")


def open_sound(path: str | Path) -> soundfile.SoundFile:
    """Open for reading, or say clearly what is wrong with the file."""
    path = Path(path)
    if not path.exists():
        raise MediaError(f"{path}: no such file")
    if path.is_dir():
        raise MediaError(f"{path}: is a directory; pass the files in it, or load it as a dataset with `folder:{path}`")
    if path.stat().st_size == 0:
        raise MediaError(f"{path}: is empty (0 bytes)")
    try:
        return soundfile.SoundFile(path)
    except soundfile.LibsndfileError as error:
        raise MediaError(f"{path}: not an audio file that libsndfile can read ({error.error_string.strip()})") from error


def read_segment(path: str | Path, rate: int, start: float = 0.0, seconds: float | None = None) -> np.ndarray:
    """Mono samples of ``path`` at ``rate`` from ``start`` on; ``seconds=None`` reads to the end.

    Only the part asked for is decoded, so the start of a 40-minute file costs what a short file costs.
    """
    with open_sound(path) as sound:
        if sound.frames == 0:
            raise MediaError(f"{path}: has a header but no audio frames")
        try:
            if start > 0:
                sound.seek(min(sound.frames, round(start * sound.samplerate)))
            frames = -1 if seconds is None else round((seconds + MARGIN_SECONDS) * sound.samplerate)
            samples = sound.read(frames, dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as error:
            raise MediaError(f"{path}: breaks off while decoding ({error.error_string.strip()})") from error
        if len(samples) == 0:
            raise MediaError(f"{path}: the header promises {sound.frames} frames but none can be decoded; the file is truncated")
        mono = resample(to_mono(Waveform(samples, sound.samplerate), str(path)), sound.samplerate, rate)
    return mono if seconds is None else mono[: round(seconds * rate)]


def rendered(source: AudioSource) -> str | Path | Waveform:
    """Let a sound that makes itself do so, once; files stay on disk."""
    source = source.waveform() if isinstance(source, Renderable) else source
    if not isinstance(source, str | Path | Waveform):
        raise MediaError(f"cannot read audio from {type(source).__name__}; pass a path, or an array with sample_rate=")
    return source


def duration(source: str | Path | Waveform) -> float:
    """Seconds of sound, from the header where there is one."""
    if isinstance(source, Waveform):
        return len(source.samples) / source.sample_rate
    with open_sound(source) as sound:
        return sound.frames / sound.samplerate


def read(source: AudioSource, rate: int, start: float = 0.0, seconds: float | None = None) -> np.ndarray:
    """As :func:`read_segment`, for files, arrays and rendered sounds alike."""
    source = rendered(source)
    if not isinstance(source, Waveform):
        return read_segment(source, rate, start, seconds)
    mono = resample(to_mono(source), source.sample_rate, rate)
    first = round(start * rate)
    return mono[first:] if seconds is None else mono[first : first + round(seconds * rate)]


def as_sources(clips: Sequence[object], sample_rate: int | None) -> list[AudioSource]:
    """What a user passes — paths, arrays with ``sample_rate``, rendered sounds — as audio sources."""
    sources: list[AudioSource] = []
    for clip in clips:
        if isinstance(clip, str | Path | Waveform | Renderable):
            sources.append(clip)
        elif hasattr(clip, "__array__") or isinstance(clip, list):
            if sample_rate is None:
                raise MediaError("arrays need their rate: pass sample_rate=…")
            sources.append(Waveform(np.asarray(clip), sample_rate))
        else:
            raise MediaError(f"cannot read audio from {type(clip).__name__}; pass a path, or an array with sample_rate=")
    return sources
