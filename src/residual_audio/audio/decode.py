"""Any audio file, array or rendered sound → one mono waveform, the same bits every time."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import soundfile
import soxr
from jaxtyping import Float

from ..media import MediaError, regular_file
from ..spelling import printable

# Read beyond the end of a crop so that the resampler's filter sees what follows it.
MARGIN_SECONDS = 0.1
# Headers lie: what is decoded is bounded by these, never by what a file claims of itself.
BLOCK_FRAMES = 8192
HIGHEST_RATE = 2_000_000
LONGEST_SECONDS = 1800


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
        if samples.shape[1] > max(1, samples.shape[0]):
            raise MediaError(f"{name}: expected [frame, channel], got shape {samples.shape}, more channels than frames; pass its transpose")
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
    if source_rate == target_rate:
        return samples
    return soxr.resample(samples, source_rate, target_rate, quality="HQ")


def check_rate(rate: int, name: str) -> None:
    if not 0 < rate <= HIGHEST_RATE:
        raise MediaError(f"{name}: a sample rate of {rate:,} Hz makes no sense")


class Stream(soundfile.SoundFile):  # type: ignore[misc]
    """Reads on from block to block. soundfile seeks after every block of a seekable file, by which MP3 decoders lose their place."""

    def seekable(self) -> bool:
        return False


def open_sound(path: str | Path) -> Stream:
    """Open for reading, or say clearly what is wrong with the file."""
    path = Path(path)
    regular_file(path)
    name = printable(str(path))
    try:
        sound = Stream(os.fsencode(path))
    except soundfile.LibsndfileError as error:
        raise MediaError(f"{name}: not an audio file that libsndfile can read ({error.error_string.strip()})") from error
    except TypeError as error:
        raise MediaError(f"{name}: bare samples without a header, so rate and format are not known; save it as WAV") from error
    check_rate(sound.samplerate, name)
    return sound


def read_segment(path: str | Path, rate: int, start: float = 0.0, seconds: float | None = None) -> np.ndarray:
    """Mono samples of ``path`` at ``rate`` from ``start`` on; ``seconds=None`` reads to the end, which must come within half an hour.

    Only the part asked for is decoded, so the start of a 40-minute file costs what a short file costs. Of a file that breaks off,
    the part before the break is used.
    """
    name = printable(str(path))
    with open_sound(path) as sound:
        if sound.frames == 0:
            raise MediaError(f"{name}: has a header but no audio frames")
        source_rate = sound.samplerate
        samples = decoded(sound, name, start, round((LONGEST_SECONDS if seconds is None else seconds + MARGIN_SECONDS) * source_rate))
    if len(samples) == 0:
        raise MediaError(f"{name}: the header promises {sound.frames} frames but none can be decoded; the file is truncated")
    if seconds is None and len(samples) == LONGEST_SECONDS * source_rate:
        raise MediaError(
            f"{name}: lasts more than {LONGEST_SECONDS // 60} minutes, too long to be read whole; "
            "cut it into parts, or go through it with `zero-shot --over-time`"
        )
    mono = at_rate(to_mono(Waveform(samples, source_rate), name), source_rate, rate, name)
    return mono if seconds is None else mono[: round(seconds * rate)]


def decoded(sound: Stream, name: str, start: float, frames: int) -> Float[np.ndarray, " frame"]:
    """At most ``frames`` from ``start`` on, as the mean over channels; memory follows what is there, not what the header says."""
    parts = list(mono_blocks(sound, name, start, frames))
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def mono_blocks(sound: Stream, name: str, start: float = 0.0, frames: int | None = None) -> Iterator[Float[np.ndarray, " frame"]]:
    """The mean over channels, block by block from ``start`` on: to the end, or for at most ``frames``. A file may break off."""
    left, begun = sys.maxsize if frames is None else frames, False
    try:
        if start > 0:
            sound.seek(min(sound.frames, round(start * sound.samplerate)))
        while left > 0:
            block = sound.read(min(BLOCK_FRAMES, left), dtype="float32", always_2d=True)
            if len(block):
                yield block.mean(axis=1) if block.shape[1] > 1 else block[:, 0]
                begun = True
            left -= len(block)
            if len(block) < BLOCK_FRAMES:
                break
    except soundfile.LibsndfileError as error:
        if not begun:
            raise MediaError(f"{name}: breaks off while decoding ({error.error_string.strip()})") from error


def at_rate(mono: np.ndarray, source_rate: int, rate: int, name: str) -> np.ndarray:
    """Resampled; a sound that is shorter than one sample of the new rate is an error."""
    resampled = resample(mono, source_rate, rate)
    if len(resampled) == 0:
        raise MediaError(f"{name}: it is too short, less than one sample at {rate:,} Hz (samples at {source_rate:,} Hz: {len(mono)})")
    return resampled


def rendered(source: AudioSource) -> str | Path | Waveform:
    """Let a sound that makes itself do so, once; files stay on disk."""
    source = source.waveform() if isinstance(source, Renderable) else source
    if not isinstance(source, str | Path | Waveform):
        raise MediaError(f"cannot read audio from {type(source).__name__}; pass a path, or an array with sample_rate=")
    return source


def duration(source: str | Path | Waveform) -> float:
    """Seconds of sound, from the header where there is one."""
    if isinstance(source, Waveform):
        check_rate(source.sample_rate, "waveform")
        return len(source.samples) / source.sample_rate
    with open_sound(source) as sound:
        return sound.frames / sound.samplerate


def read(source: AudioSource, rate: int, start: float = 0.0, seconds: float | None = None) -> np.ndarray:
    """As :func:`read_segment`, for files, arrays and rendered sounds alike."""
    source = rendered(source)
    if not isinstance(source, Waveform):
        return read_segment(source, rate, start, seconds)
    check_rate(source.sample_rate, "waveform")
    mono = at_rate(to_mono(source), source.sample_rate, rate, "waveform")
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
