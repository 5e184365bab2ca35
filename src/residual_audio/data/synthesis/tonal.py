"""Source classes with a pitch. Each function: seeded generator → (samples, the words that are true of them)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .dsp import LENGTH, RATE, SECONDS, Array, Random, beats, clock, decay, fade, log_uniform, noise, partials, placed, tone, wobble
from .expression import ATTACKS, COLOURS, MODULATIONS, attack, colour, modulation, pitch, register

Rendered = tuple[Array, frozenset[str]]
NEUTRAL = 1 / np.arange(1, 31, dtype=float) ** 1.6


def tempo(rate: float, slow: float, fast: float) -> frozenset[str]:
    """The word for a rate of repetition, if it is clearly on one side."""
    if rate < slow:
        return frozenset({"slow"})
    return frozenset({"fast"}) if rate > fast else frozenset()


def expressed(rng: Random) -> tuple[Array, Array, str]:
    """(frequency factor, amplitude factor, word) of a random modulation."""
    kind = str(rng.choice(MODULATIONS))
    return *modulation(rng, kind), kind


def melody(rng: Random, rate: float, f: float, scale: tuple[int, ...], note: Callable[[float], Array]) -> Array:
    """Notes ``rate`` a second, drawn from a few semitone steps above ``f``."""
    notes = [note(f * 2 ** (step / 12)) for step in scale]
    return placed([(t, notes[rng.integers(len(notes))]) for t in beats(rng, rate)])


def pure_tone(rng: Random) -> Rendered:
    f = pitch(rng, 120, 3000)
    factor, loudness, kind = expressed(rng)
    return tone(f * factor, np.array([1.0])) * loudness, register(f) | {kind}


def synthesizer(rng: Random) -> Rendered:
    """A plain tone with exactly one kind of expression: a colour, an attack or a modulation."""
    f = pitch(rng, 100, 1300)
    expression = rng.integers(3)
    if expression == 0:
        kind = str(rng.choice(COLOURS))
        return tone(f, colour(rng, kind, f)) * fade(LENGTH, 0.1, 0.2), register(f) | {kind, "steady"}
    if expression == 1:
        factor, loudness, kind = expressed(rng)
        return tone(f * factor, NEUTRAL) * loudness, register(f) | {kind}
    kind = str(rng.choice(ATTACKS))
    seconds = rng.uniform(0.7, 1.6)
    length = int(seconds * RATE)
    grains = [(t, tone(f, NEUTRAL, length) * attack(rng, kind, length)) for t in np.arange(rng.uniform(0, 0.4), SECONDS, seconds)]
    return placed(grains), register(f) | {kind}


def organ(rng: Random) -> Rendered:
    f = pitch(rng, 90, 500)
    factor, loudness, kind = expressed(rng)
    stops = np.zeros(16)
    stops[[0, 1, 2, 3, 7]] = rng.uniform(0.3, 1.0, 5)
    chord = sum(tone(f * ratio * factor, stops, phase=rng.uniform()) for ratio in (1.0, 1.25, 1.5))
    return chord * loudness * fade(LENGTH, 0.08, 0.3), register(f) | {kind}


def buzzer(rng: Random) -> Rendered:
    """A low reedy tone whose spectrum has random bumps."""
    f = pitch(rng, 70, 420)
    factor, loudness, kind = expressed(rng)
    k = np.arange(1, 61)
    bumps = sum(rng.uniform(0.3, 1) * np.exp(-0.5 * (np.log2(k * f / log_uniform(rng, 300, 3500)) / 0.35) ** 2) for _ in range(2))
    return tone(f * factor, (0.05 + bumps) * k**-0.4) * loudness, register(f) | {kind}


def chirp(rng: Random, kind: str) -> Rendered:
    low, ratio = log_uniform(rng, 150, 900), rng.uniform(3, 9)
    repeats = int(rng.integers(1, 5))
    length = LENGTH // repeats
    track = low * ratio ** np.linspace(0, 1, length)
    sweep = tone(track if kind == "rising" else track[::-1], np.array([1.0, 0.3, 0.1]), length) * fade(length, 0.03, 0.05)
    return placed([(i * length / RATE, sweep) for i in range(repeats)]), frozenset({kind}) | tempo(repeats, 1.5, 3.5)


def plucked_string(rng: Random) -> Rendered:
    f = pitch(rng, 80, 700)
    rate = rng.uniform(0.8, 3.5)
    length = int(1.2 * RATE)
    k = np.arange(1, 19)
    comb = np.abs(np.sin(np.pi * k * rng.uniform(0.12, 0.35))) / k

    def note(at: float) -> Array:
        return partials(at * k * np.sqrt(1 + 2e-4 * k**2), comb, rng.uniform(0.5, 0.9) / (1 + 0.25 * k), length)

    return melody(rng, rate, f, (0, 2, 4, 7, 9), note), register(f) | {"plucked"} | tempo(rate, 1.4, 2.6)


def piano(rng: Random) -> Rendered:
    f = pitch(rng, 80, 1000)
    rate = rng.uniform(0.7, 3.0)
    length = int(1.4 * RATE)
    k = np.arange(1, 13)

    def note(at: float) -> Array:
        thump = noise(rng, length, slope=6, high=900) * decay(length, 0.015) * 0.4
        return thump + partials(at * k * np.sqrt(1 + 5e-4 * k**2), k**-1.3, rng.uniform(0.9, 1.6) / (1 + 0.12 * k), length)

    return melody(rng, rate, f, (0, 3, 5, 12), note), register(f) | {"struck"} | tempo(rate, 1.3, 2.3)


def bell(rng: Random) -> Rendered:
    f = pitch(rng, 200, 1600)
    rate = rng.uniform(0.35, 2.0)
    ratios = np.array([0.5, 1.0, 1.19, 1.5, 2.0, 2.52, 3.01, 4.1]) * rng.normal(1, 0.01, 8)
    amplitudes = rng.uniform(0.4, 1.0, 8) * np.array([0.5, 1, 0.7, 0.5, 0.8, 0.4, 0.3, 0.3])
    length = int(3 * RATE)
    strike = partials(f * ratios, amplitudes, rng.uniform(0.8, 1.6) / np.sqrt(ratios), length)
    return placed([(t, strike) for t in beats(rng, rate, start=rng.uniform(0, 0.5))]), register(f) | {"struck"} | tempo(rate, 0.8, 1.4)


def glockenspiel(rng: Random) -> Rendered:
    rate = rng.uniform(2.0, 6.0)
    length = int(0.7 * RATE)
    grains = []
    for t in beats(rng, rate):
        f = 1200 * 2 ** (rng.choice([0, 2, 4, 5, 7, 9, 11, 12]) / 12)
        grains.append((t, partials(f * np.array([1, 2.76, 5.4]), np.array([1, 0.4, 0.15]), np.array([0.35, 0.15, 0.06]), length)))
    return placed(grains), frozenset({"high", "struck"}) | tempo(rate, 3.2, 4.8)


def siren(rng: Random) -> Rendered:
    t, rate = clock(), rng.uniform(0.3, 3.0)
    low, span = rng.uniform(450, 800), rng.uniform(1.5, 2.2)
    wave = np.sin(2 * np.pi * rate * t + rng.uniform(0, 6))
    shape = np.sign(wave) if rng.random() < 0.35 else wave
    return tone(low * span ** (0.5 + 0.5 * shape), colour(rng, "hollow", low)), tempo(rate, 0.8, 1.8)


def engine(rng: Random) -> Rendered:
    base = log_uniform(rng, 25, 110)
    rev = 1 + rng.uniform(0.02, 0.35) * wobble(rng, LENGTH, 0.8)
    body = tone(base * rev, np.arange(1, 41) ** -0.6 * rng.uniform(0.2, 1, 40))
    return body + 0.25 * noise(rng, slope=5, high=2500) * (1 + body / (np.abs(body).max() + 1e-9)), frozenset({"rough"}) | tempo(
        base, 45, 75
    )


def bird(rng: Random) -> Rendered:
    rate, base = rng.uniform(2.0, 8.0), rng.uniform(2000, 4500)
    grains = []
    for t in beats(rng, rate, jitter=0.25):
        if rng.random() < 0.2:
            continue
        length = int(rng.uniform(0.05, 0.16) * RATE)
        track = base * rng.uniform(0.85, 1.2) * rng.uniform(0.6, 1.6) ** np.linspace(-0.5, 0.5, length)
        trill = 1 + rng.uniform(0, 0.1) * np.sin(2 * np.pi * rng.uniform(20, 45) * clock(length))
        grains.append((t, tone(track * trill, np.array([1.0, 0.15]), length) * np.hanning(length)))
    return placed(grains), frozenset({"high"}) | tempo(rate, 3.5, 6.0)


def alarm(rng: Random) -> Rendered:
    rate, f = rng.uniform(1.2, 6.0), rng.uniform(900, 2600)
    length = int(rng.uniform(0.4, 0.6) / rate * RATE)
    beep = tone(f, np.array([1, 0, 0.33, 0, 0.2]), length) * fade(length, 0.004, 0.004)
    return placed([(t, beep) for t in beats(rng, rate, jitter=0)]), frozenset({"high"}) | tempo(rate, 2.2, 4.2)


def telephone(rng: Random) -> Rendered:
    warble = rng.uniform(16, 24)
    low, high = rng.uniform(700, 1000), rng.uniform(1100, 1500)
    track = np.where(np.sin(2 * np.pi * warble * clock()) > 0, low, high)
    period = rng.uniform(1.2, 2.4)
    gate = ((clock() + rng.uniform(0, period)) % period < 0.6 * period).astype(float)
    return tone(track, np.array([1, 0.4, 0.3, 0.1])) * gate, frozenset({"trembling"})


def insect(rng: Random) -> Rendered:
    f = log_uniform(rng, 180, 700)
    drift = 1 + 0.12 * wobble(rng, LENGTH, 1.5)
    return tone(f * drift, colour(rng, "bright", f)) * (0.6 + 0.4 * wobble(rng, LENGTH, 2.0)), register(f) | {"wavering", "bright"}


def hum(rng: Random) -> Rendered:
    f = float(rng.choice([50, 60])) * rng.uniform(0.97, 1.03)
    kind = str(rng.choice(["steady", "trembling", "stuttering"]))
    weights = np.zeros(12)
    weights[[0, 1, 2, 3, 5, 7]] = rng.uniform(0.2, 1.0, 6)
    return tone(f, weights) * modulation(rng, kind)[1] + 0.02 * noise(rng), frozenset({"low", kind})


def whistle(rng: Random) -> Rendered:
    f = pitch(rng, 600, 2400)
    factor, loudness, kind = expressed(rng)
    breath = noise(rng, low=f, high=min(2.5 * f, 7000)) * rng.uniform(0.08, 0.2)
    return (tone(f * factor, np.array([1.0, 0.08])) + breath) * loudness * fade(LENGTH, 0.12, 0.2), register(f) | {kind, "blown"}


def zap(rng: Random) -> Rendered:
    rate = rng.uniform(1.0, 5.0)
    grains = []
    for t in beats(rng, rate, jitter=0.1):
        length = int(rng.uniform(0.12, 0.3) * RATE)
        track = rng.uniform(2500, 4500) * 0.06 ** np.linspace(0, 1, length)
        grains.append((t, tone(track, colour(rng, "bright", 1000.0), length) * decay(length, 0.1)))
    return placed(grains), frozenset({"falling"}) | tempo(rate, 2.0, 3.8)
