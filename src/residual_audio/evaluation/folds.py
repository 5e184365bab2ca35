"""Who may see what: disjoint parts of the clips for the basis, for training, for stopping and for the test; no group is in two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..data import Dataset, grouped_parts, in_folds, stratified_folds
from .errors import EvaluationError

# Of the training clips, so many parts of five give the basis, are learned from, and say when to stop.
SHARES = (1, 3, 1)
# With the parts of a published report, so many first clips of a training split give the basis.
FIRST = 250


@dataclass(frozen=True)
class Parts:
    """Row numbers. ``basis``, ``train`` and ``stop`` are disjoint and make up the training folds; ``test`` is the held-out fold.

    Of a few shots, ``basis`` is ``train`` and ``stop`` together. ``trusting``: training is stopped by the clips that are learned from, as a
    published report did, so ``stop`` is ``train``; the test is apart even then.
    """

    basis: np.ndarray
    train: np.ndarray
    stop: np.ndarray
    test: np.ndarray
    trusting: bool = False

    @property
    def seen(self) -> np.ndarray:
        """Every clip outside the test that may be used."""
        return np.unique(np.concatenate([self.basis, self.train, self.stop]))


def with_folds(dataset: Dataset, folds: str, seed: int = 0) -> Dataset:
    """``official``: the dataset's own; where it has none, five stratified ones that keep groups together.
    ``stratified``: five random ones, as in older reports (a group may be split)."""
    if folds == "official" and dataset.folds != "none" and any(c.fold >= 0 for c in dataset.clips):
        return dataset
    if folds not in ("official", "stratified"):
        raise EvaluationError(f"unknown folds {folds!r}; one of official, stratified")
    if folds == "official":
        return replace(dataset, clips=in_folds(dataset.clips, seed), folds="stratified")
    numbers = stratified_folds([c.label for c in dataset.clips], seed=seed)
    clips = tuple(replace(c, fold=f) for c, f in zip(dataset.clips, numbers, strict=True))
    return replace(dataset, clips=clips, folds="stratified")


def inner_parts(
    dataset: Dataset, rows: np.ndarray, test: np.ndarray, seed: int, shots: int | None = None, parts: str = "disjoint"
) -> Parts:
    """Split the training clips ``rows``; groups stay together. With ``shots``, see :func:`few_parts`.

    ``parts="report"``: the first 250 clips (half of fewer than 500) give the basis, the others are learned from and stopped on.
    """
    if shots is not None:
        return few_parts(dataset, rows, test, seed, shots)
    if parts == "report":
        first = min(FIRST, len(rows) // 2)
        return Parts(rows[:first], rows[first:], rows[first:], test, trusting=True)
    clips = [dataset.clips[i] for i in rows]
    part = np.array(grouped_parts([c.label for c in clips], [c.own_group for c in clips], SHARES, seed))
    basis, train, stop = (rows[part == i] for i in range(len(SHARES)))
    if not (len(basis) and len(train) and len(stop)):
        raise EvaluationError(
            f"{dataset.name}: {len(rows)} training clips are too few for separate parts (basis, training, stopping); "
            "about five per class outside the test are needed"
        )
    return Parts(basis, train, stop, test)


def apart(rows: np.ndarray, groups: list[str]) -> np.ndarray:
    """The same rows, one of every group first: few clips should not be of one."""
    _, first = np.unique([groups[i] for i in rows], return_index=True)
    return np.concatenate([rows[np.sort(first)], np.delete(rows, first)])


def few_parts(dataset: Dataset, rows: np.ndarray, test: np.ndarray, seed: int, shots: int) -> Parts:
    """``shots`` clips per class in all, for every method: a quarter of them (at least one of two) say when to stop, the others are learned
    from. The basis needs no labels and is taken of the same clips. A single shot leaves none to stop on: the last epoch counts."""
    rng, targets, groups = np.random.default_rng(seed), dataset.targets, dataset.groups
    drawn = [apart(rng.permutation(rows[targets[rows] == c]), groups)[:shots] for c in range(len(dataset.labels))]
    judging = stopping_groups([[groups[i] for i in own] for own in drawn])
    seen = np.sort(np.concatenate(drawn))
    waits = np.array([groups[i] in judging for i in seen], dtype=bool)
    return Parts(seen, seen[~waits], seen[waits], test)


def stopping_groups(drawn: list[list[str]]) -> set[str]:
    """Which groups say when to stop, of the groups of every class's clips: whole groups, the smallest first, until a quarter of a class
    is reached; every class keeps a clip to learn from, so a class of one group has none to stop on."""
    left = [Counter(own) for own in drawn]
    judging: set[str] = set()
    for clips in drawn:
        wanted = max(1, len(clips) // 4) if len(clips) > 1 else 0
        for group in sorted(dict.fromkeys(clips), key=Counter(clips).__getitem__):
            if sum(g in judging for g in clips) >= wanted:
                break
            if group not in judging and all(others.total() > others[group] for others in left if others[group]):
                judging.add(group)
                for others in left:
                    others.pop(group, None)
    return judging


def fold_parts(dataset: Dataset, seed: int = 0, shots: int | None = None, parts: str = "disjoint") -> Iterator[tuple[int, Parts]]:
    """One set of parts per fold of the dataset; every clip is tested once."""
    folds = np.array([c.fold for c in dataset.clips])
    if len(np.unique(folds)) < 2:
        raise EvaluationError(f"{dataset.name}: {len(dataset)} clips make a single fold; a comparison needs at least two per class")
    for fold in np.unique(folds):
        yield int(fold), inner_parts(dataset, np.flatnonzero(folds != fold), np.flatnonzero(folds == fold), seed, shots, parts)
