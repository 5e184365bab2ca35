"""The few signal generators from which every synthetic sound is built.

All of them take a seeded generator, so the same seed gives the same samples. Tones are read from a
band-limited wavetable: one cycle is drawn from its harmonics once and then scanned at any (varying)
frequency, which is an order of magnitude quicker than summing sines.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.fft

RATE = 16_000
SECONDS = 4.0
LENGTH = int(RATE * SECONDS)
TABLE = 2048

Array = np.ndarray
Random = np.random.Generator


def clock(length: int = LENGTH) -> Array:
    """Seconds since the start, one value a sample."""
    return np.arange(length) / RATE


def log_uniform(rng: Random, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def tone(frequency: float | Array, harmonics: Array, length: int = LENGTH, phase: float = 0.0) -> Array:
    """A periodic sound with amplitude ``harmonics[k]`` at ``(k + 1) · frequency``, free of aliasing.

    Harmonics that would pass 0.45 of the sampling rate at the highest frequency are left out.
    """
    track = np.broadcast_to(np.asarray(frequency, dtype=np.float64), (length,))
    usable = min(len(harmonics), int(0.45 * RATE / max(track.max(), 1.0)), TABLE // 2 - 1)
    if usable < 1:
        return np.zeros(length)
    spectrum = np.zeros(TABLE // 2 + 1, dtype=np.complex128)
    spectrum[1 : usable + 1] = -1j * np.asarray(harmonics[:usable]) * TABLE / 2
    table = np.fft.irfft(spectrum, TABLE)
    table = np.append(table, table[0])
    position = (phase + np.cumsum(track) / RATE) % 1.0 * TABLE
    left = position.astype(np.int64)
    return table[left] + (position - left) * (table[left + 1] - table[left])


def partials(frequencies: Array, amplitudes: Array, decays: Array, length: int) -> Array:
    """Decaying sines at any frequencies (bells, bars, strings): ``Σ a·exp(−t/decay)·sin(2πft)``."""
    t = clock(length)
    keep = np.asarray(frequencies) < 0.45 * RATE
    out = np.zeros(length)
    for f, a, d in zip(np.asarray(frequencies)[keep], np.asarray(amplitudes)[keep], np.asarray(decays)[keep], strict=True):
        out += a * np.exp(-t / d) * np.sin(2 * np.pi * f * t)
    return out


def filtered(wave: Array, response: Callable[[Array], Array]) -> Array:
    """Multiply the spectrum by ``response(frequency in Hz)``, without phase."""
    spectrum = scipy.fft.rfft(np.asarray(wave, dtype=np.float32))
    frequency = np.arange(len(spectrum), dtype=np.float32) * np.float32(RATE / len(wave))
    return scipy.fft.irfft(spectrum * response(frequency).astype(np.float32), len(wave)).astype(np.float64)


def noise(rng: Random, length: int = LENGTH, slope: float = 0.0, low: float = 20.0, high: float = 8000.0) -> Array:
    """Gaussian noise falling by ``slope`` dB an octave, between two smooth edges, unit variance."""

    def response(f: Array) -> Array:
        f = np.maximum(f, np.float32(1.0))
        below, above = low / f, f / high
        edges = 1 / np.sqrt((1 + (below * below * below) ** 2) * (1 + (above * above * above) ** 2))
        return edges * np.exp(np.float32(-slope / (20 * np.log10(2))) * np.log(f / 1000))

    out = filtered(rng.standard_normal(length, dtype=np.float32), response)
    return out / (out.std() + 1e-12)


def wobble(rng: Random, length: int, rate: float) -> Array:
    """A smooth random curve in about [−1, 1] that turns ``rate`` times a second."""
    turns = length / RATE * rate
    knots = rng.uniform(-1, 1, int(turns) + 2)
    position = np.linspace(0, turns, length)
    left = position.astype(np.int64)
    step = position - left
    step = step * step * (3 - 2 * step)
    return knots[left] + step * (knots[left + 1] - knots[left])


def fade(length: int, attack: float, release: float = 0.02) -> Array:
    """Up over ``attack`` seconds, flat, down over ``release`` seconds."""
    t = clock(length)
    return np.clip(t / max(attack, 1e-4), 0, 1) * np.clip((length / RATE - t) / max(release, 1e-4), 0, 1)


def decay(length: int, seconds: float, attack: float = 0.002) -> Array:
    """Up over ``attack`` seconds, then ``exp(−t / seconds)``."""
    t = clock(length)
    return np.clip(t / max(attack, 1e-4), 0, 1) * np.exp(-t / seconds)


def placed(grains: list[tuple[float, Array]], length: int = LENGTH) -> Array:
    """Add short sounds at their onsets in seconds; what sticks out at the end is cut off."""
    out = np.zeros(length)
    for onset, grain in grains:
        start = int(onset * RATE)
        if 0 <= start < length:
            stop = min(length, start + len(grain))
            out[start:stop] += grain[: stop - start]
    return out


def beats(rng: Random, rate: float, jitter: float = 0.03, start: float | None = None) -> Array:
    """Onsets in seconds, ``rate`` a second, each moved by up to ``jitter`` of a period."""
    first = rng.uniform(0, 1 / rate) if start is None else start
    onsets = np.arange(first, SECONDS, 1 / rate)
    return np.clip(onsets + rng.uniform(-jitter, jitter, len(onsets)) / rate, 0, SECONDS)


def reverberant(rng: Random, wave: Array, seconds: float, wet: float) -> Array:
    """Add a diffuse tail: convolution with exponentially decaying noise."""
    length = int(min(3 * seconds, 1.5) * RATE)
    tail = rng.standard_normal(length, dtype=np.float32) * np.exp(-clock(length) / seconds).astype(np.float32)
    size = scipy.fft.next_fast_len(len(wave) + length, real=True)
    echo = scipy.fft.irfft(scipy.fft.rfft(wave.astype(np.float32), size) * scipy.fft.rfft(tail, size), size)[: len(wave)]
    scale = np.sqrt((wave**2).mean() / ((echo**2).mean() + 1e-12))
    return wave + wet * scale * echo
