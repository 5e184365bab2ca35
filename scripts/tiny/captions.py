"""Captions of real sounds: some of what is known of a clip, in words; and which captions are true of which clips.

A concept is a noun or a word. A clip has all concepts that are true of it, a caption claims some;
it is true of every clip that has them all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from residual_audio.data.synthesis.captions import FRAMES, GENERIC, SYNONYMS, article

WORDS = SYNONYMS | {
    "short": ("short", "brief"),
    "long": ("long", "sustained"),
    "quiet": ("quiet", "gently played"),
    "loud": ("loud", "forceful", "forte"),
    "acoustic": ("acoustic", "real"),
    "electronic": ("electronic", "electric", "synthetic"),
    "sung": ("sung", "singing"),
}
SHAPES = {
    "note": ("one note of {}", "a note played on {}", "a single note on {}", "{} playing one note"),
    "chord": ("a chord on {}", "{} playing a chord", "a chord played on {}"),
    "phrase": ("a short phrase on {}", "{} playing a melody", "a few notes played on {}"),
}
PLAYED = ("the instrument {}", "this is the sound of the instrument {}", "someone plays {}", "{} playing")


@dataclass(frozen=True)
class Facts:
    """What is true of a clip: its class, its own nouns (the first is the class), wider nouns, words, and its shape, if it is music."""

    nouns: tuple[str, ...]
    wider: tuple[str, ...] = ()
    words: frozenset[str] = frozenset()
    shape: str | None = None

    @property
    def concepts(self) -> frozenset[str]:
        return frozenset({*self.nouns, *self.wider, *(f"*{w}" for w in self.words), *([f"*{self.shape}"] if self.shape else [])})


@dataclass(frozen=True)
class Claim:
    """A caption, the concepts that it claims, and whether it names the class itself."""

    text: str
    concepts: frozenset[str]
    names_class: bool


def pick(rng: np.random.Generator, choices: tuple[str, ...]) -> str:
    return choices[int(rng.integers(len(choices)))]


def draw(rng: np.random.Generator, facts: Facts) -> Claim:
    """A random true caption: the class, one of its other names, its family or just "sound"; up to two words; sometimes its shape."""
    kind = rng.random()
    anonymous = bool(facts.words) and kind > 0.9
    if anonymous:
        noun = pick(rng, GENERIC)
    elif facts.wider and kind > 0.5:
        # The plain name of a family is what people will ask for: as often as all others together.
        noun = facts.wider[0] if rng.random() < 0.5 else pick(rng, facts.wider)
    else:
        noun = facts.nouns[0] if rng.random() < 0.6 else pick(rng, facts.nouns)
    order = sorted(facts.words)
    most = min(2, len(order))
    few = int(rng.integers(1, most + 1)) if anonymous else int(rng.integers(0, most + 1)) * int(rng.random() < 0.5)
    words = [str(w) for w in rng.permutation(order)[:few]] if few else []
    phrase = " ".join([*(pick(rng, WORDS[w]) for w in words), noun])
    phrase = article(phrase) if rng.random() < 0.5 else phrase
    claimed = {noun} if not anonymous else set()
    claimed |= {f"*{w}" for w in words}
    frame = pick(rng, FRAMES)
    if facts.shape and rng.random() < 0.3:
        if rng.random() < 0.6:
            frame = pick(rng, SHAPES[facts.shape])
            claimed.add(f"*{facts.shape}")
        else:
            frame = pick(rng, PLAYED)
    return Claim(frame.format(phrase), frozenset(claimed), noun == facts.nouns[0])
