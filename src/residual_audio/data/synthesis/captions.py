"""Captions for sounds whose properties are known, and whether a caption is true of a sound.

Because the truth is known, a contrastive batch can treat *every* true pair as a positive, not only the
pair that was drawn together.
"""

from __future__ import annotations

from dataclasses import dataclass

from .dsp import Random

FRAMES = (
    "{}",
    "this is the sound of {}",
    "the sound of {}",
    "a recording of {}",
    "this is a sound of {}",
    "someone recorded {}",
    "you can hear {}",
    "audio of {}",
    "{} can be heard",
)
GENERIC = ("sound", "noise", "instrument", "tone", "one")
SYNONYMS = {
    "low": ("low", "deep", "low pitched"),
    "high": ("high", "high pitched", "shrill"),
    "slow": ("slow", "unhurried"),
    "fast": ("fast", "rapid", "quick"),
    "steady": ("steady", "constant"),
    "trembling": ("trembling", "pulsating"),
    "wavering": ("wavering", "warbling"),
    "stuttering": ("stuttering", "interrupted"),
    "rising": ("rising", "ascending"),
    "falling": ("falling", "descending"),
    "rough": ("rough", "rattling"),
    "mellow": ("mellow", "soft"),
    "bright": ("bright", "brilliant"),
    "hollow": ("hollow",),
    "nasal": ("nasal",),
    "plucked": ("plucked",),
    "struck": ("struck", "hammered"),
    "bowed": ("bowed", "swelling"),
    "blown": ("blown", "breathy"),
    "whispering": ("whispering", "airy"),
    "distant": ("distant", "far away", "echoing"),
}


@dataclass(frozen=True)
class Caption:
    """``text`` says that the sound is of class ``label`` (None: says nothing of it) and has all ``words``."""

    text: str
    label: str | None
    words: frozenset[str]

    def true_of(self, label: str, words: frozenset[str]) -> bool:
        return (self.label is None or self.label == label) and self.words <= words


def article(phrase: str) -> str:
    return ("an " if phrase[0] in "aeiou" else "a ") + phrase


def draw_caption(rng: Random, label: str, nouns: tuple[str, ...], words: frozenset[str], generic: float = 0.35) -> Caption:
    """A random true caption: some of the words, one of the nouns (or, sometimes, just "sound")."""
    anonymous = bool(words) and rng.random() < generic
    order = sorted(words)
    most = min(len(order), 3)
    count = int(rng.integers(1, most + 1)) if anonymous else int(rng.integers(0, most + 1))
    chosen = [str(w) for w in rng.permutation(order)[:count]] if order else []
    noun = str(rng.choice(GENERIC if anonymous else nouns))
    phrase = " ".join([*(str(rng.choice(SYNONYMS[w])) for w in chosen), noun])
    if rng.random() < 0.6:
        phrase = article(phrase)
    text = str(rng.choice(FRAMES)).format(phrase)
    return Caption(text, None if anonymous else label, frozenset(chosen))
