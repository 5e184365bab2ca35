"""Training sounds by job: ``render(job)`` gives samples and what is true of them, the same for the same job.

Four kinds of job: ``synthetic`` (class, take), ``program`` and ``drum`` of a soundfont, and a ``recording``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from residual_audio.audio import MelSpec, Preprocessing
from residual_audio.data.synthesis import RATE, TASKS, draw_caption, take
from residual_audio.data.synthesis.dsp import LENGTH

from .captions import Claim, Facts, draw
from .instruments import DRUMS, EXTRA, PROGRAMS, Instrument
from .recordings import Recording, find
from .soundfonts import HELD_OUT, TRAINED, Event, Soundfont, play
from .vary import Random, heard

MEL = MelSpec(n_fft=1024, hop=256, mels=64, filter_rate=RATE, f_min=50, f_max=7600)
POLICY = Preprocessing(sample_rate=RATE, samples=LENGTH, mel=MEL)
CAPTIONS = 4
FONTS = (*TRAINED, HELD_OUT)
SCALE = (0, 2, 4, 5, 7, 9, 11, 12)


@dataclass(frozen=True)
class Job:
    kind: str
    key: tuple[str | int, ...]
    seed: int


@dataclass(frozen=True)
class Sound:
    samples: np.ndarray
    facts: Facts
    claims: tuple[Claim, ...]


def instrument(program: int, extra: int) -> Instrument:
    return EXTRA[extra][1] if extra >= 0 else PROGRAMS[program]


@cache
def recordings() -> list[Recording]:
    return find()


def synthetic(task: str, index: int, seed: int) -> tuple[np.ndarray, Facts]:
    clip = take(task, index, seed)
    return clip.samples, Facts(TASKS[task][index].nouns, words=clip.words)


def synthetic_claim(rng: Random, facts: Facts) -> Claim:
    """A caption as the package draws them, and what it claims."""
    caption = draw_caption(rng, facts.nouns[0], facts.nouns, facts.words)
    words = {f"*{w}" for w in caption.words}
    if caption.label is None:
        return Claim(caption.text, frozenset(words), False)
    noun = next(n for n in sorted(facts.nouns, key=len, reverse=True) if n in caption.text)
    return Claim(caption.text, frozenset({noun, *words}), True)


def pitches(rng: Random, low: int, high: int) -> tuple[str, list[int]]:
    """One note, a chord or a phrase; mostly inside the natural range, else up to a fifth and an octave beyond it."""
    beyond = 0 if rng.random() < 0.65 else 19
    first = int(rng.integers(max(16, low - beyond), min(110, high + beyond) + 1))
    shape = str(rng.choice(["note", "chord", "phrase"], p=[0.7, 0.12, 0.18]))
    if shape == "chord":
        return shape, [first, first + int(rng.integers(3, 5)), first + 7]
    if shape == "phrase":
        return shape, [first + int(rng.choice(SCALE)) - 5 for _ in range(int(rng.integers(2, 6)))]
    return shape, [first]


def events(rng: Random, shape: str, notes: list[int], velocity: int) -> tuple[list[Event], float]:
    """When the notes sound, and how many seconds are kept: four, or less for a clip that was cut short (it will be repeated)."""
    if shape == "phrase":
        length = float(rng.uniform(0.18, 0.7))
        return [Event(n, i * length, length * rng.uniform(0.6, 1.0), velocity) for i, n in enumerate(notes)], 4.0
    brief = rng.random() < 0.4
    length = float(rng.uniform(0.12, 1.4)) if brief else float(rng.uniform(1.0, 3.5))
    kept = min(4.0, length + float(rng.uniform(0.1, 0.6))) if brief and rng.random() < 0.8 else 4.0
    return [Event(n, 0.0, length, velocity) for n in notes], kept


def loudness(velocity: int) -> set[str]:
    return {"quiet"} if velocity < 45 else {"loud"} if velocity > 105 else set()


def program(font: Soundfont, number: int, extra: int, rng: Random) -> tuple[np.ndarray, Facts]:
    known = instrument(number, extra)
    shape, notes = pitches(rng, known.low, known.high)
    velocity = int(rng.integers(25, 128))
    played, kept = events(rng, shape, notes, velocity)
    # Playing a lower note faster gives the same pitch on a smaller instrument, and the other way round.
    speed = 2 ** (float(rng.uniform(-3, 3)) / 12) if rng.random() < 0.5 else 1.0
    shifted = [Event(int(np.clip(round(e.note - 12 * np.log2(speed)), 0, 127)), e.start, e.length, e.velocity) for e in played]
    wave = play(font, number, shifted, kept, speed=speed)
    frequency = 440 * 2 ** ((notes[0] - 69) / 12)
    words = {*known.words, *loudness(velocity)} | ({"low"} if frequency < 220 else {"high"} if frequency > 880 else set())
    if shape == "note":
        words |= {"short"} if played[0].length < 0.5 else {"long"} if played[0].length > 2 else set()
    return wave, Facts(known.nouns, known.family_nouns, frozenset(words), shape if known.families != ("effect",) else None)


def drum(font: Soundfont, number: int, rng: Random) -> tuple[np.ndarray, Facts]:
    known, velocity = DRUMS[number], int(rng.integers(40, 128))
    hits = int(rng.integers(2, 9)) if rng.random() < 0.4 else 1
    gap = float(rng.uniform(0.15, 0.6))
    wave = play(
        font, 0, [Event(number, i * gap, 0.1, velocity) for i in range(hits)], 4.0 if hits > 1 else float(rng.uniform(0.6, 4)), drums=True
    )
    return wave, Facts(known.nouns, known.family_nouns, frozenset({*known.words, *loudness(velocity)}))


def recording(path: Recording, rng: Random) -> tuple[np.ndarray, Facts]:
    """Another stretch at another speed: pitch and time go together, as on a tape."""
    import soxr

    from residual_audio.audio import read

    wave = read(path.path, RATE)
    wave = soxr.resample(wave, RATE * 2 ** (float(rng.uniform(-3, 3)) / 12), RATE).astype(np.float32)
    if len(wave) > LENGTH:
        start = int(rng.integers(0, len(wave) - LENGTH + 1)) if rng.random() < 0.6 else 0
        wave = wave[start : start + LENGTH]
    return wave, Facts(path.nouns[:1], path.nouns[1:])


def render(job: Job) -> Sound:
    """Samples of exactly the model's length, what is true of them, and captions."""
    key = [n if isinstance(n, int) else sum(n.encode()) for n in job.key]
    rng = np.random.default_rng([len(job.kind), *(n + 1 for n in key), job.seed])
    if job.kind == "synthetic":
        wave, facts = synthetic(str(job.key[0]), int(job.key[1]), job.seed)
    else:
        if job.kind == "program":
            wave, facts = program(FONTS[int(job.key[0])], int(job.key[1]), int(job.key[2]), rng)
        elif job.kind == "drum":
            wave, facts = drum(FONTS[int(job.key[0])], int(job.key[1]), rng)
        else:
            wave, facts = recording(recordings()[int(job.key[0])], rng)
        wave = POLICY.fit(heard(rng, wave)).astype(np.float32)
    claim = synthetic_claim if job.kind == "synthetic" else draw
    return Sound(wave, facts, tuple(claim(rng, facts) for _ in range(CAPTIONS)))
