"""How a sustained sound is played: pitch registers, modulations, spectral colours and attacks.

Each word that a caption may use has one acoustic meaning here. Sources use one kind of expression at a
time; the held-out target tasks combine them, on carriers that no source has.
"""

from __future__ import annotations

import numpy as np

from .dsp import LENGTH, RATE, SECONDS, Array, Random, clock, decay, fade, log_uniform, wobble

LOW, HIGH = 220.0, 880.0
MODULATIONS = ("steady", "trembling", "wavering", "stuttering", "rising", "falling", "rough")
COLOURS = ("mellow", "bright", "hollow", "nasal")
ATTACKS = ("plucked", "struck", "bowed", "blown")


def register(frequency: float) -> frozenset[str]:
    """The word for a pitch, if there is one: nothing is said of the middle."""
    if frequency < LOW:
        return frozenset({"low"})
    return frozenset({"high"}) if frequency > HIGH else frozenset()


def modulation(rng: Random, kind: str, length: int = LENGTH) -> tuple[Array, Array]:
    """(frequency factor, amplitude factor), one value a sample."""
    t, one = clock(length), np.ones(length)
    turn = rng.uniform(0, 2 * np.pi)
    if kind == "steady":
        return one, one
    if kind == "trembling":
        depth = rng.uniform(0.6, 0.95)
        return one, 1 - depth * (0.5 + 0.5 * np.sin(2 * np.pi * rng.uniform(4, 9) * t + turn))
    if kind == "wavering":
        depth = rng.uniform(0.03, 0.09)
        return 1 + depth * np.sin(2 * np.pi * rng.uniform(3.5, 8) * t + turn), one
    if kind == "stuttering":
        gate = (np.sin(2 * np.pi * rng.uniform(2.5, 7) * t + turn) > rng.uniform(-0.3, 0.5)).astype(float)
        ramp = np.hanning(int(0.008 * RATE))
        return one, np.convolve(gate, ramp / ramp.sum(), mode="same")
    if kind in ("rising", "falling"):
        octaves = rng.uniform(0.7, 1.8) * (1 if kind == "rising" else -1)
        return 2 ** (octaves * (t / SECONDS - 0.5)), one
    if kind == "rough":
        beat = 0.5 + 0.5 * np.sin(2 * np.pi * rng.uniform(28, 65) * t + turn + 0.6 * wobble(rng, length, 20))
        return 1 + 0.01 * wobble(rng, length, 30), 1 - rng.uniform(0.7, 1.0) * beat
    raise ValueError(f"unknown modulation {kind!r}; one of {', '.join(MODULATIONS)}")


def colour(rng: Random, kind: str, frequency: float) -> Array:
    """Amplitudes of the harmonics of a tone of this colour at this pitch."""
    k = np.arange(1, 41, dtype=float)
    if kind == "mellow":
        return k ** -rng.uniform(2.6, 3.4)
    if kind == "bright":
        return k ** -rng.uniform(0.35, 0.7)
    if kind == "hollow":
        return np.where(k % 2 == 1, k ** -rng.uniform(0.9, 1.3), 0.02 * k**-1.0)
    if kind == "nasal":
        centre, width = rng.uniform(1300, 2100), rng.uniform(0.25, 0.4)
        return 0.12 * k**-1.2 + np.exp(-0.5 * (np.log2(k * frequency / centre) / width) ** 2)
    raise ValueError(f"unknown colour {kind!r}; one of {', '.join(COLOURS)}")


def attack(rng: Random, kind: str, length: int) -> Array:
    """The loudness of one note over time."""
    if kind == "plucked":
        return decay(length, rng.uniform(0.15, 0.4), attack=0.002)
    if kind == "struck":
        return 0.55 * decay(length, rng.uniform(0.03, 0.06), 0.001) + 0.45 * decay(length, rng.uniform(0.8, 1.5), 0.001)
    if kind == "bowed":
        return fade(length, attack=rng.uniform(0.35, 0.7) * length / RATE, release=0.15)
    if kind == "blown":
        return fade(length, attack=rng.uniform(0.04, 0.09), release=rng.uniform(0.05, 0.1))
    raise ValueError(f"unknown attack {kind!r}; one of {', '.join(ATTACKS)}")


def pitch(rng: Random, low: float = 90.0, high: float = 1500.0) -> float:
    return log_uniform(rng, low, high)
