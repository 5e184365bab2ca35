r"""Concepts as directions without the modality gap: texts about the mean text or, where an encoder has no texts, classes about their mean.

Sounds and texts lie in two narrow cones. $t_j \leftarrow (t_j - \bar t)/|t_j - \bar t|$, and sounds are taken about the mean sound, as in
SpLiCE (Bhalla et al. 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from ..data.prompts import templates
from ..evaluation import prompt_directions
from ..spelling import printable
from .dictionary import MeaningError, default_names, load_dictionary
from .listening import Listening
from .texts import text_directions

LONGEST_TEXT = 500  # characters


@dataclass(frozen=True)
class Concepts:
    """``directions [word, d]`` of unit length. ``source``: texts, or centroids of labelled clips."""

    words: tuple[str, ...]
    directions: Float[Tensor, "word d"]
    source: str

    def __len__(self) -> int:
        return len(self.words)

    def index(self, text: str) -> int:
        """The row of a text that was asked for."""
        return self._keys.index(text.strip().casefold())

    @property
    def _keys(self) -> list[str]:
        return [word.casefold() for word in self.words]


def checked(texts: Sequence[str]) -> list[str]:
    """Texts as they were meant, each once; empty and endless ones are refused."""
    clean = list({text.strip().casefold(): text.strip() for text in texts}.values())
    for text in clean:
        if not text or len(text) > LONGEST_TEXT:
            raise MeaningError(f"a text has to have 1 to {LONGEST_TEXT} characters; {printable(text[:20])!r} has {len(text)}")
    return clean


def concepts_for(
    listening: Listening, texts: Sequence[str] = (), dictionary: str | Sequence[str] | None = None, template: str = "plain"
) -> Concepts:
    """The words of a dictionary and ``texts``; for an encoder without a text side, the classes of the clips, of which texts name some."""
    encoder, asked = listening.encoder, checked(texts)
    if not encoder.has_text:
        if dictionary is not None:
            raise MeaningError(f"{encoder.name} has no text side, so it knows no dictionary; the classes of --data stand in")
        return class_concepts(listening, asked)
    book = load_dictionary(default_names(encoder.name) if dictionary is None else dictionary)
    known = text_directions({"model": {"revision": encoder.revision}}, book.words, template, lambda: encoder)
    have = {word.casefold() for word in book.words}
    new = [text for text in asked if text.casefold() not in have]
    more = prompt_directions(encoder, new, templates(template)).cpu().float() if new else known[:0]
    return Concepts((*book.words, *new), F.normalize(torch.cat([known, more]) - known.mean(0), dim=-1), "texts")


def class_concepts(listening: Listening, asked: Sequence[str]) -> Concepts:
    """Mean embeddings of the classes, over the clips of ``fit``, about the mean class."""
    data, rows = listening.dataset, torch.from_numpy(listening.fit)
    targets = torch.from_numpy(data.targets)[rows]
    present = targets.unique()
    if len(present) < 2:
        raise MeaningError(f"{data.name} has {len(present)} class; where texts are missing, two or more classes stand in (--data)")
    means = torch.stack([listening.embeddings[rows][targets == c].mean(0) for c in present])
    words = tuple(data.names[data.labels[c]] for c in present.tolist())
    spelt = {data.labels[c].casefold(): word for c, word in zip(present.tolist(), words, strict=True)}
    have = {word.casefold() for word in words}
    for text in asked:
        if text.casefold() not in have:
            hint = f"; did you mean {spelt[text.casefold()]!r}?" if text.casefold() in spelt else ""
            raise MeaningError(
                f"{listening.encoder.name} has no text side, and {data.name} has no class {printable(text)!r}{hint} "
                f"Its classes: {', '.join(words[:20])}{', …' if len(words) > 20 else ''}"
            )
    return Concepts(words, F.normalize(means - means.mean(0), dim=-1), "centroids")
