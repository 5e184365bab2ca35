"""Who may see what: disjoint parts of the clips for the basis, for training, for stopping and for the test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..data import Dataset, grouped_folds, stratified_folds
from .errors import EvaluationError

# Of five equal parts of the training clips, one gives the basis, one says when to stop, three are learned from.
PIECES = 5


@dataclass(frozen=True)
class Parts:
    """Row numbers. ``basis``, ``train`` and ``stop`` are disjoint and make up the training folds; ``test`` is the held-out fold.

    Of a few shots, ``basis`` is ``train`` and ``stop`` together.
    """

    basis: np.ndarray
    train: np.ndarray
    stop: np.ndarray
    test: np.ndarray

    @property
    def seen(self) -> np.ndarray:
        """Every clip outside the test that may be used."""
        return np.unique(np.concatenate([self.basis, self.train, self.stop]))


def with_folds(dataset: Dataset, folds: str, seed: int = 0) -> Dataset:
    """``official``: the dataset's own; where it has none, five stratified ones that keep a speaker or recording together.
    ``stratified``: five random ones, as in older reports (clips of one recording may be split)."""
    if folds == "official" and dataset.folds != "none" and any(c.fold >= 0 for c in dataset.clips):
        return dataset
    if folds not in ("official", "stratified"):
        raise EvaluationError(f"unknown folds {folds!r}; one of official, stratified")
    labels = [c.label for c in dataset.clips]
    numbers = stratified_folds(labels, seed=seed) if folds == "stratified" else grouped_folds(labels, dataset.groups, seed=seed)
    clips = tuple(replace(c, fold=f) for c, f in zip(dataset.clips, numbers, strict=True))
    return replace(dataset, clips=clips, folds="stratified")


def inner_parts(dataset: Dataset, rows: np.ndarray, test: np.ndarray, seed: int, shots: int | None = None) -> Parts:
    """Split the training clips ``rows``; clips of one speaker or recording stay together. With ``shots``, see :func:`few_parts`."""
    if shots is not None:
        return few_parts(dataset, rows, test, seed, shots)
    groups = dataset.groups
    labels = [dataset.clips[i].label for i in rows]
    piece = np.array(grouped_folds(labels, [groups[i] for i in rows], PIECES, seed))
    basis, stop, train = rows[piece == 1], rows[piece == 2], rows[piece > 2]
    if not (len(basis) and len(train) and len(stop)):
        raise EvaluationError(
            f"{dataset.name}: {len(rows)} training clips are too few for separate parts (basis, training, stopping); "
            "about five per class outside the test are needed"
        )
    return Parts(basis, train, stop, test)


def apart(rows: np.ndarray, groups: list[str]) -> np.ndarray:
    """The same rows, one of every speaker or recording first: few clips should not be of one."""
    _, first = np.unique([groups[i] for i in rows], return_index=True)
    return np.concatenate([rows[np.sort(first)], np.delete(rows, first)])


def few_parts(dataset: Dataset, rows: np.ndarray, test: np.ndarray, seed: int, shots: int) -> Parts:
    """``shots`` clips per class in all, for every method: a quarter of them (at least one of two) say when to stop, the others are learned
    from. The basis needs no labels and is taken of the same clips. A single shot leaves none to stop on: the last epoch counts."""
    rng, targets, groups = np.random.default_rng(seed), dataset.targets, dataset.groups
    train, stop = [], []
    for c in range(len(dataset.labels)):
        own = apart(rng.permutation(rows[targets[rows] == c]), groups)[:shots]
        waiting = max(1, len(own) // 4) if len(own) > 1 else 0
        stop.append(own[:waiting])
        train.append(own[waiting:])
    learned, judged = np.sort(np.concatenate(train)), np.sort(np.concatenate(stop))
    return Parts(np.sort(np.concatenate([learned, judged])), learned, judged, test)


def fold_parts(dataset: Dataset, seed: int = 0, shots: int | None = None) -> Iterator[tuple[int, Parts]]:
    """One set of parts per fold of the dataset; every clip is tested once."""
    folds = np.array([c.fold for c in dataset.clips])
    if len(np.unique(folds)) < 2:
        raise EvaluationError(f"{dataset.name}: {len(dataset)} clips make a single fold; a comparison needs at least two per class")
    for fold in np.unique(folds):
        yield int(fold), inner_parts(dataset, np.flatnonzero(folds != fold), np.flatnonzero(folds == fold), seed, shots)
