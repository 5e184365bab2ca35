"""A dataset is a tuple of rows and the names of its classes; nothing here touches audio."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ..sampling import SAMPLES
from ..spelling import one_spelling, printable
from .splits import grouped_folds
from .synthetic import PREFIX, SyntheticAddress


class DataError(ValueError):
    """A dataset that cannot be loaded; the message says where it was looked for and what is expected."""


class DataWarning(UserWarning):
    """Something about a dataset that makes its figures less sure than they look."""


@dataclass(frozen=True)
class Clip:
    """One recording (or image, for a vision tower). ``fold`` is −1 where the dataset has none; ``path`` may be a ``synthetic:`` address.

    ``group``: what the clip shares with others that are not independent of it, such as a speaker, a recording or an instrument.
    Empty: the clip stands for itself.
    """

    id: str
    path: str
    label: str
    fold: int = -1
    group: str = ""
    captions: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def source(self) -> Path | SyntheticAddress:
        """What an encoder reads: the file, or the synthetic sound that the address names."""
        return SyntheticAddress(self.path) if self.synthetic else Path(self.path)

    @property
    def synthetic(self) -> bool:
        return self.path.startswith(PREFIX)

    @property
    def own_group(self) -> str:
        """The group, or the clip's id where it has none: a group of one."""
        return self.group or self.id


@dataclass(frozen=True)
class Dataset:
    """Rows, class order and texts. ``folds`` says where fold numbers come from: official, stratified or none.

    ``names`` maps a label to the words used for it in prompts (labels with their underscores cleaned away, unless
    a dataset knows better); ``notes`` keeps what was chosen on loading, for the record of a run.
    """

    name: str
    clips: tuple[Clip, ...]
    labels: tuple[str, ...]
    names: dict[str, str]
    folds: str = "none"
    notes: dict[str, object] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.clips)

    def __repr__(self) -> str:
        return f"<Dataset {self.name} · {len(self.clips):,} clips, {len(self.labels):,} classes, folds: {self.folds}>"

    @property
    def targets(self) -> np.ndarray:
        """Class numbers, one per clip."""
        return np.array(self.rows_of(c.label for c in self.clips), dtype=np.int64)

    @property
    def groups(self) -> list[str]:
        """The group of each clip (speaker, recording, instrument); a clip without one is its own."""
        return [c.own_group for c in self.clips]

    def only(self, keep: Callable[[Clip], bool], note: str) -> Dataset:
        """The rows for which ``keep`` holds; classes that vanish leave the class list too."""
        clips = tuple(c for c in self.clips if keep(c))
        present = {c.label for c in clips}
        labels = tuple(label for label in self.labels if label in present)
        return replace(self, clips=clips, labels=labels, notes={**self.notes, "only": note})

    def without(self, errors: Container[str]) -> Dataset:
        """The clips whose ids are not among ``errors``; a class of which none is left leaves the class list too."""
        clips = tuple(c for c in self.clips if c.id not in errors)
        present = {c.label for c in clips}
        return replace(self, clips=clips, labels=tuple(label for label in self.labels if label in present))

    def rows_of(self, labels: Iterable[str]) -> list[int]:
        """The numbers of some of its classes."""
        position = {label: i for i, label in enumerate(self.labels)}
        return [position[label] for label in labels]

    def limited(self, count: int, sample: str = "stratified", seed: int = 0) -> Dataset:
        """At most ``count`` clips; the order of the rows stays, classes that vanish leave the class list, and the notes say what was done.

        ``sample``: ``stratified``, evenly over classes and their folds with ``seed``; ``first``, the first clips of each class in turn.
        """
        if sample not in SAMPLES:
            raise DataError(f"unknown sample {sample!r}; one of {', '.join(SAMPLES)}")
        rows = SAMPLES[sample]([c.label for c in self.clips], [c.fold for c in self.clips], count, seed)
        clips = tuple(self.clips[i] for i in rows)
        present = {c.label for c in clips}
        labels = tuple(label for label in self.labels if label in present)
        drawn = {"limit": count, "sample": sample} | ({"sample_seed": seed} if sample == "stratified" else {})
        return replace(self, clips=clips, labels=labels, notes={**self.notes, **drawn})


def clean_label(label: str) -> str:
    """A label as words: separators become spaces, case is dropped."""
    return " ".join(label.replace("_", " ").replace("-", " ").split()).lower()


def spelled(clip: Clip) -> Clip:
    """Its words in one spelling that can be stored anywhere, and a path that opens the file from any working folder."""
    path = clip.path if clip.synthetic else os.path.abspath(clip.path)
    return replace(clip, id=printable(clip.id), path=path, label=one_spelling(printable(clip.label)), group=printable(clip.group))


def in_folds(clips: Sequence[Clip], seed: int = 0) -> tuple[Clip, ...]:
    """The clips in five made folds: every class spread evenly, no group in two."""
    numbers = grouped_folds([c.label for c in clips], [c.own_group for c in clips], seed=seed)
    return tuple(replace(c, fold=number) for c, number in zip(clips, numbers, strict=True))


def make_dataset(name: str, clips: Iterable[Clip], folds: str = "none", names: dict[str, str] | None = None, **notes: object) -> Dataset:
    """Gather rows into a dataset: labels sorted, ids checked to be unique, prompt names filled in."""
    rows = tuple(spelled(clip) for clip in clips)
    if not rows:
        raise DataError(f"{name}: no clips found")
    twice = next((id for id, count in Counter(c.id for c in rows).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"{name}: the id {twice!r} occurs more than once")
    labels = tuple(sorted({c.label for c in rows}))
    known = {one_spelling(printable(label)): name for label, name in (names or {}).items()}
    names = {label: known.get(label, clean_label(label)) for label in labels}
    return Dataset(name, rows, labels, names, folds, dict(notes))
