"""The two held-out tasks, in the spirit of TinySOL and VocalSound.

``timbre``: instruments told apart by spectral colour *and* attack, across three octaves, with bodies
(resonances) that no source has. ``voice``: a vowel-like carrier (glottal pulses through formants) that is
used in eight ways. Their label words occur in the captions of sources, never together and never of these carriers.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from .dsp import LENGTH, RATE, SECONDS, Array, Random, fade, filtered, log_uniform, noise, placed, tone, wobble
from .expression import ATTACKS, COLOURS, attack, colour, modulation, register

TIMBRES = tuple(product(COLOURS, [a for a in ATTACKS if a != "struck"]))
VOICES = ("steady", "trembling", "wavering", "stuttering", "rising", "falling", "rough", "whispering")
# First three formants of five vowels, in Hz.
VOWELS = ((730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410))


def body(rng: Random) -> list[tuple[float, float, float]]:
    """Random resonances of an instrument's body: (centre, width in octaves, gain)."""
    return [(log_uniform(rng, 200, 4000), rng.uniform(0.2, 0.5), rng.uniform(0.3, 0.9)) for _ in range(3)]


def timbre(rng: Random, colour_word: str, attack_word: str) -> tuple[Array, frozenset[str]]:
    """A short phrase on an instrument of this colour and attack, each note with a little vibrato."""
    f = log_uniform(rng, 130, 1050)
    resonances = body(rng)
    grains, onset = [], rng.uniform(0, 0.3)
    while onset < SECONDS - 0.2:
        seconds = rng.uniform(0.5, 1.5)
        length = int(seconds * RATE)
        at = f * 2 ** (rng.choice([-5, -3, 0, 0, 2, 4, 7]) / 12)
        vibrato = 1 + 0.006 * np.sin(2 * np.pi * rng.uniform(4, 6) * np.arange(length) / RATE)
        note = tone(at * vibrato, colour(rng, colour_word, at), length) * attack(rng, attack_word, length)
        grains.append((onset, note * rng.uniform(0.6, 1.0)))
        onset += seconds + rng.uniform(0, 0.15)

    def response(frequency: Array) -> Array:
        octaves = np.log2(np.maximum(frequency, 1.0))
        return 1 + sum(g * np.exp(-0.5 * ((octaves - np.log2(c)) / w) ** 2) for c, w, g in resonances)

    return filtered(placed(grains), response), register(f) | {colour_word, attack_word}


def voice(rng: Random, kind: str) -> tuple[Array, frozenset[str]]:
    """A sung or whispered vowel that moves as ``kind`` says; vowel, speaker and pitch vary."""
    f = log_uniform(rng, 85, 330)
    size = rng.uniform(0.9, 1.25)
    start, end = (np.array(VOWELS[i]) * size for i in rng.integers(len(VOWELS), size=2))
    factor, loudness = modulation(rng, "steady" if kind == "whispering" else kind)
    jitter = 1 + 0.012 * wobble(rng, LENGTH, 6)
    pulses = tone(f * factor * jitter, np.arange(1, 61) ** -1.1)
    breathing = noise(rng, low=200)
    excitation = breathing * 0.5 if kind == "whispering" else pulses + rng.uniform(0.02, 0.12) * breathing

    def formants(centres: Array):
        return lambda fr: 0.01 + sum(g / (1 + ((fr - c) / (60 + 0.05 * c)) ** 2) for c, g in zip(centres, (1.0, 0.6, 0.3), strict=True))

    glide = np.clip(np.linspace(-0.5, 1.5, LENGTH) + 0.3 * wobble(rng, LENGTH, 1), 0, 1)
    spoken = filtered(excitation, formants(start)) * (1 - glide) + filtered(excitation, formants(end)) * glide
    return spoken * loudness * fade(LENGTH, rng.uniform(0.05, 0.3), 0.2), register(f) | {kind}
