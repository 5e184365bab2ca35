"""Source classes without a pitch: noises, strokes and textures. Each: seeded generator → (samples, true words)."""

from __future__ import annotations

import numpy as np

from .dsp import LENGTH, RATE, Array, Random, beats, clock, decay, fade, log_uniform, noise, partials, placed, tone, wobble
from .expression import modulation
from .tonal import Rendered, tempo


def coloured(rng: Random, slope: float, words: frozenset[str]) -> Rendered:
    kind = str(rng.choice(["steady", "steady", "trembling", "stuttering", "rough"]))
    return noise(rng, slope=slope) * modulation(rng, kind)[1], words | {kind}


def white_noise(rng: Random) -> Rendered:
    return coloured(rng, rng.uniform(-1.5, 0.5), frozenset({"bright"}))


def pink_noise(rng: Random) -> Rendered:
    return coloured(rng, rng.uniform(2.5, 4.5), frozenset())


def rumble(rng: Random) -> Rendered:
    return coloured(rng, rng.uniform(9, 13), frozenset({"low", "mellow"}))


def strokes(rng: Random, rate: float, make, words: frozenset[str], slow: float, fast: float, jitter: float = 0.03) -> Rendered:
    """The same kind of stroke again and again, each a little different."""
    return placed([(t, make() * rng.uniform(0.7, 1.0)) for t in beats(rng, rate, jitter)]), words | tempo(rate, slow, fast)


def ticking(rng: Random) -> Rendered:
    length, f = int(0.03 * RATE), rng.uniform(1800, 3500)
    return strokes(
        rng, rng.uniform(1, 6), lambda: tone(f, np.array([1, 0.5]), length) * decay(length, 0.004, 0.0005), frozenset({"high"}), 2.2, 4.2, 0
    )


def kick_drum(rng: Random) -> Rendered:
    length = int(0.35 * RATE)
    t = clock(length)
    start, end = rng.uniform(120, 200), rng.uniform(40, 60)

    def stroke() -> Array:
        track = end + (start - end) * np.exp(-t / 0.03)
        return np.sin(2 * np.pi * np.cumsum(track) / RATE) * decay(length, 0.12) + 0.1 * noise(rng, length) * decay(length, 0.005)

    return strokes(rng, rng.uniform(1, 4.5), stroke, frozenset({"low"}), 1.8, 3.2)


def snare_drum(rng: Random) -> Rendered:
    length, f = int(0.3 * RATE), rng.uniform(160, 240)

    def stroke() -> Array:
        return 0.5 * tone(f, np.array([1.0, 0.4]), length) * decay(length, 0.06) + 0.6 * noise(rng, length, slope=-1, low=900) * decay(
            length, 0.08
        )

    return strokes(rng, rng.uniform(1, 5), stroke, frozenset(), 1.9, 3.6)


def cymbal(rng: Random) -> Rendered:
    seconds = log_uniform(rng, 0.04, 0.5)
    length = int(min(1.5, 5 * seconds) * RATE)
    return strokes(
        rng,
        rng.uniform(1, 6),
        lambda: noise(rng, length, slope=-3, low=4000) * decay(length, seconds),
        frozenset({"bright", "high"}),
        2.0,
        4.2,
    )


def hand_clap(rng: Random) -> Rendered:
    length = int(0.2 * RATE)

    def clap() -> Array:
        grains = [(d, noise(rng, length, low=700, high=3000) * decay(length, 0.012)) for d in (0, 0.011, 0.023)]
        return placed(grains, length) + 0.4 * noise(rng, length, low=800, high=2600) * decay(length, 0.06)

    return strokes(rng, rng.uniform(1, 6), clap, frozenset(), 2.0, 4.2, 0.08)


def footsteps(rng: Random) -> Rendered:
    length = int(0.25 * RATE)

    def step() -> Array:
        heel = noise(rng, length, slope=8, high=500) * decay(length, 0.03)
        scrape = noise(rng, length, slope=2, low=800, high=5000) * decay(length, 0.05, 0.03)
        return heel + 0.35 * scrape

    return strokes(rng, rng.uniform(1.2, 3.4), step, frozenset(), 1.8, 2.7, 0.06)


def knocking(rng: Random) -> Rendered:
    length = int(0.2 * RATE)
    modes = np.array([1, 1.7, 2.6, 3.9]) * rng.uniform(150, 320)
    grains = []
    for group in beats(rng, rng.uniform(0.5, 1.0), 0.1, start=rng.uniform(0.05, 0.5)):
        gap = rng.uniform(0.14, 0.26)
        for i in range(int(rng.integers(2, 5))):
            hit = partials(modes, np.array([1, 0.8, 0.5, 0.3]), np.array([0.04, 0.03, 0.02, 0.01]), length)
            grains.append((group + i * gap, hit + 0.15 * noise(rng, length, high=2500) * decay(length, 0.006)))
    return placed(grains), frozenset({"struck"})


def rain(rng: Random) -> Rendered:
    drops = rng.uniform(60, 400)
    impulses = (rng.random(LENGTH) < drops / RATE) * rng.exponential(1.0, LENGTH)
    ping = noise(rng, 160, low=2500) * decay(160, 0.002)
    patter = np.convolve(impulses, ping)[:LENGTH]
    return patter + rng.uniform(0.1, 0.3) * noise(rng, slope=-1, low=1000) * patter.std(), frozenset({"bright"}) | tempo(drops, 150, 280)


def wind(rng: Random) -> Rendered:
    gusts = 0.55 + 0.45 * wobble(rng, LENGTH, rng.uniform(0.5, 1.5))
    howl = noise(rng, slope=6, low=rng.uniform(120, 250), high=rng.uniform(500, 900))
    air = noise(rng, slope=3, low=600, high=3000)
    return howl * gusts**2 + 0.3 * air * gusts**3, frozenset({"blown", "whispering"})


def breath(rng: Random) -> Rendered:
    """Puffs of air, as from bellows."""
    rate = rng.uniform(0.4, 1.6)
    length = int(0.6 / rate * RATE)

    def puff() -> Array:
        return noise(rng, length, slope=1, low=rng.uniform(500, 900), high=rng.uniform(3000, 6000)) * np.hanning(length)

    return strokes(rng, rate, puff, frozenset({"blown", "whispering"}), 0.75, 1.15, 0.1)


def waves(rng: Random) -> Rendered:
    rate = rng.uniform(0.25, 0.7)
    swell = (0.5 + 0.5 * np.sin(2 * np.pi * rate * clock() + rng.uniform(0, 6))) ** 2
    return noise(rng, slope=4, high=1500) * (0.25 + swell) + 0.4 * noise(rng, slope=0, low=1500) * swell**2, frozenset({"slow"})


def thunder(rng: Random) -> Rendered:
    grains = []
    for t in np.sort(rng.uniform(0.0, 2.0, int(rng.integers(2, 6)))):
        length = int(2 * RATE)
        grains.append((t, noise(rng, length, slope=9, high=400) * decay(length, rng.uniform(0.3, 0.9), 0.03) * rng.uniform(0.4, 1)))
    crack = noise(rng, RATE // 2, slope=3) * decay(RATE // 2, 0.06) * rng.uniform(0, 0.8)
    return placed([*grains, (grains[0][0], crack)]), frozenset({"low"})


def helicopter(rng: Random) -> Rendered:
    rate = rng.uniform(9, 20)
    chop = (0.5 + 0.5 * np.sin(2 * np.pi * rate * clock())) ** 3
    return noise(rng, slope=6, high=1800) * chop + 0.2 * tone(rate * 6.3, np.ones(6)), frozenset({"trembling", "low"}) | tempo(rate, 12, 17)


def crickets(rng: Random) -> Rendered:
    f, rate = rng.uniform(3800, 5200), rng.uniform(1.5, 4.0)
    length = int(rng.uniform(0.15, 0.25) * RATE)
    pulses = (0.5 + 0.5 * np.sin(2 * np.pi * rng.uniform(35, 60) * clock(length))) ** 2
    trill = tone(f, np.array([1.0]), length) * pulses * np.hanning(length)
    return placed([(t, trill) for t in beats(rng, rate)]) + 0.01 * noise(rng), frozenset({"high", "rough"}) | tempo(rate, 2.2, 3.3)


def water_drops(rng: Random) -> Rendered:
    def drop() -> Array:
        length = int(rng.uniform(0.05, 0.12) * RATE)
        track = rng.uniform(500, 1200) * rng.uniform(1.5, 2.6) ** np.linspace(0, 1, length)
        return tone(track, np.array([1.0, 0.1]), length) * decay(length, 0.03)

    return strokes(rng, rng.uniform(0.8, 5), drop, frozenset({"rising"}), 1.7, 3.5, 0.3)


def fire(rng: Random) -> Rendered:
    crackles = rng.uniform(8, 45)
    impulses = (rng.random(LENGTH) < crackles / RATE) * rng.exponential(1.0, LENGTH)
    snap = noise(rng, 320, slope=0, low=900) * decay(320, 0.004, 0.0003)
    bed = noise(rng, slope=8, high=700) * 0.03
    return np.convolve(impulses, snap)[:LENGTH] + bed, tempo(crackles, 18, 33)


def sawing(rng: Random) -> Rendered:
    rate = rng.uniform(1.0, 3.5)
    stroke = np.abs(np.sin(np.pi * rate * clock() + rng.uniform(0, 3)))
    teeth = 0.6 + 0.4 * tone(rng.uniform(60, 120) * (0.5 + stroke), np.ones(4))
    return noise(rng, slope=1, low=600, high=4500) * stroke**1.5 * teeth, frozenset({"rough"}) | tempo(rate, 1.7, 2.7)


def geiger(rng: Random) -> Rendered:
    rate = log_uniform(rng, 6, 60)
    impulses = (rng.random(LENGTH) < rate / RATE).astype(float)
    click = decay(48, 0.0008, 0.0002) * fade(48, 0.0002, 0.0005)
    return np.convolve(impulses, click)[:LENGTH] + 0.002 * noise(rng), frozenset({"stuttering"}) | tempo(rate, 13, 30)
