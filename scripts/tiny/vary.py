"""One recording as many microphones would have heard it: colour, bandwidth, room, background, level, and how much of it was kept."""

from __future__ import annotations

import numpy as np

from residual_audio.data.synthesis import RATE
from residual_audio.data.synthesis.dsp import LENGTH, noise, reverberant

Random = np.random.Generator


def coloured(rng: Random, wave: np.ndarray) -> np.ndarray:
    """A random tilt, three broad peaks or dips, and sometimes a narrow band: filters of zero phase."""
    spectrum = np.fft.rfft(wave)
    frequency = np.fft.rfftfreq(len(wave), 1 / RATE)
    octave = np.log2(np.maximum(frequency, 20) / 1000)
    level = rng.normal(0, 1.5) * octave
    for _ in range(3):
        level = level + rng.normal(0, 4) * np.exp(-0.5 * ((octave - rng.uniform(-3.5, 3)) / rng.uniform(0.3, 1.2)) ** 2)
    if rng.random() < 0.3:
        level = level - 24 * np.maximum(0, octave - np.log2(rng.uniform(2.5, 7.5)))
    if rng.random() < 0.2:
        level = level - 18 * np.maximum(0, np.log2(rng.uniform(0.06, 0.25)) - octave)
    return np.fft.irfft(spectrum * 10 ** (np.clip(level, -60, 18) / 20), len(wave))


def heard(rng: Random, wave: np.ndarray) -> np.ndarray:
    """``wave`` of at most four seconds, played somewhere and recorded; it keeps its length."""
    if rng.random() < 0.75:
        wave = coloured(rng, wave)
    if rng.random() < 0.35 and len(wave) == LENGTH:
        wave = reverberant(rng, wave, float(rng.uniform(0.1, 0.6)), wet=float(rng.uniform(0.2, 0.9)))
    level = np.sqrt((wave**2).mean()) + 1e-9
    if rng.random() < 0.7:
        hiss = noise(rng, slope=float(rng.uniform(0, 6)))[: len(wave)]
        wave = wave + level * 10 ** (-rng.uniform(15, 60) / 20) * hiss / (np.sqrt((hiss**2).mean()) + 1e-9)
    if rng.random() < 0.05:
        wave = np.tanh(wave / (3 * level)) * 3 * level
    return (wave / (np.abs(wave).max() + 1e-9) * 10 ** (-rng.uniform(0.5, 24) / 20)).astype(np.float32)
