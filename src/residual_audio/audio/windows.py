"""Recordings of any length in constant memory: decoded and resampled block by block, cut into overlapping windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import soxr

from ..media import MediaError, name_of
from .decode import BLOCK_FRAMES, AudioSource, Waveform, check_rate, mono_blocks, open_sound, rendered, to_mono


@dataclass(frozen=True)
class Window:
    """A stretch of a recording: ``start`` in samples of the rate that was asked for, and the samples from there on."""

    start: int
    samples: np.ndarray


def blocks(source: AudioSource, rate: int) -> Iterator[np.ndarray]:
    """The mono waveform at ``rate``, a block at a time.

    Invariant: the blocks in a row are what :func:`.decode.read` gives of the whole, to rounding; no more than a block is held.
    """
    source = rendered(source)
    name = name_of(source)
    if isinstance(source, Waveform):
        check_rate(source.sample_rate, name)
        mono = to_mono(source)
        yield from resampled((mono[i : i + BLOCK_FRAMES] for i in range(0, len(mono), BLOCK_FRAMES)), source.sample_rate, rate)
        return
    with open_sound(source) as sound:
        yield from resampled((to_mono(Waveform(b, sound.samplerate), name) for b in mono_blocks(sound, name)), sound.samplerate, rate)


def resampled(parts: Iterator[np.ndarray], source_rate: int, rate: int) -> Iterator[np.ndarray]:
    """soxr's resampler fed block by block: its filter carries over from one block to the next."""
    if source_rate == rate:
        yield from parts
        return
    stream = soxr.ResampleStream(source_rate, rate, 1, dtype="float32", quality="HQ")
    for part in parts:
        yield stream.resample_chunk(part)
    yield stream.resample_chunk(np.zeros(0, np.float32), last=True)


def sliding(source: AudioSource, rate: int, length: int, hop: int) -> Iterator[Window]:
    """Windows of ``length`` samples that begin every ``hop``; the last one ends where the recording ends.

    Invariants: every sample is in a window; all windows have the same length, unless the whole recording is shorter than one.
    Memory: two windows and a block, however long the recording is.
    """
    if not 0 < hop <= length:
        raise ValueError(f"a hop of {hop} samples between windows of {length} leaves gaps or never moves")
    held, first = np.zeros(0, np.float32), 0  # `held` begins at sample `first` of the recording
    waiting: list[np.ndarray] = []  # blocks that are not joined to it yet
    end = due = covered = 0  # samples seen; where the next window begins; where the last one ended
    for block in blocks(source, rate):
        waiting.append(block)
        end += len(block)
        if due + length > end:
            continue
        held, waiting = np.concatenate([held, *waiting]), []
        while due + length <= end:
            yield Window(due, held[due - first : due - first + length].copy())
            covered, due = due + length, due + hop
        spare = max(0, min(due, end - length) - first)  # a last window may reach back by its whole length
        held, first = held[spare:], first + spare
    if end == 0:
        raise MediaError(f"{name_of(source)}: no audio frames can be decoded")
    if covered < end:
        last = max(0, end - length)
        yield Window(last, np.concatenate([held, *waiting])[last - first :])
