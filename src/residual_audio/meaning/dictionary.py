"""Lists of audio concepts from which words are chosen: data in the package, the synthetic catalogue's, or the user's own file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..analysis import AnalysisError

FOLDER = Path(__file__).parent / "dictionaries"
# By name: what is in it, in one line.
DICTIONARIES = {
    "audioset": "the 527 names with which AudioSet labels clips",
    "esc50": "the 50 classes of ESC-50",
    "instruments": "musical instruments",
    "voice": "what voices do",
    "attributes": "how a sound is: pitch, loudness, colour, texture, rhythm, room",
    "synthetic": "every noun and adjective of the captions that `tiny` was trained on",
}


class MeaningError(AnalysisError):
    """A question about words that this run or encoder cannot answer; the message says what to do next."""


@dataclass(frozen=True)
class Dictionary:
    """``words`` without repetition and, for each, the list it comes from."""

    words: tuple[str, ...]
    sources: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.words)

    @property
    def hash(self) -> str:
        """Twelve hex digits of the words in their order."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()[:12]


def default_names(model: str) -> tuple[str, ...]:
    """`tiny` knows the words of its captions only; for others the names of AudioSet and the acoustic attributes."""
    return ("synthetic",) if model == "tiny" else ("audioset", "attributes")


def synthetic_words() -> list[str]:
    """From the catalogue: the nouns of every source class, and every adjective a caption may use, with "sound" as its noun."""
    from ..data.synthesis.captions import SYNONYMS, article
    from ..data.synthesis.catalogue import SOURCES

    nouns = [noun for kind in SOURCES for noun in kind.nouns]
    return nouns + [article(f"{word} sound") for words in SYNONYMS.values() for word in words]


def read_words(path: Path) -> list[str]:
    """One concept per line; empty lines and lines that begin with # are left out."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise MeaningError(f"the dictionary {path} cannot be read ({error}); expected a text file with one concept per line") from error
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def load_dictionary(names: str | Sequence[str]) -> Dictionary:
    """One dictionary of several: names of :data:`DICTIONARIES` or files. A word that stands in two lists counts for the first."""
    words_by_key: dict[str, tuple[str, str]] = {}
    for name in [names] if isinstance(names, str) else names:
        if name == "synthetic":
            words = synthetic_words()
        elif name in DICTIONARIES:
            words = read_words(FOLDER / f"{name}.txt")
        elif Path(name).expanduser().is_file():
            words = read_words(Path(name).expanduser())
        else:
            raise MeaningError(f"no dictionary {name!r}; one of {', '.join(DICTIONARIES)}, or a text file with one concept per line")
        for word in words:
            words_by_key.setdefault(word.casefold(), (word, Path(name).stem))
    if len(words_by_key) < 4:
        raise MeaningError(f"{len(words_by_key)} words are too few to choose from; at least 4 are needed")
    return Dictionary(tuple(word for word, _ in words_by_key.values()), tuple(source for _, source in words_by_key.values()))
