"""Which clips published reports used, and in which folds, as far as they say so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..data import Dataset


def drawn(dataset: Dataset, count: int, seed: int = 42) -> Dataset:
    """So many clips, classes in proportion, as scikit-learn's StratifiedShuffleSplit draws them; all where there are no more."""
    from sklearn.model_selection import StratifiedShuffleSplit

    classes, counts = np.unique(dataset.targets, return_counts=True)
    if count >= len(dataset):
        return dataset
    if count < len(classes) or len(dataset) - count < len(classes) or counts.min() < 2:
        return dataset.limited(count, seed=seed)
    rows, _ = next(StratifiedShuffleSplit(1, train_size=count, random_state=seed).split(dataset.targets, dataset.targets))
    return chosen(dataset, rows, f"{count} drawn in proportion to the classes, seed {seed}")


def evenly(dataset: Dataset, count: int, seed: int = 42) -> Dataset:
    """⌊count / classes⌋ clips of every class, and one more of the first classes for the remainder; all of a class that has fewer."""
    if count >= len(dataset):
        return dataset
    rng, targets = np.random.default_rng(seed), dataset.targets
    each, more = divmod(count, len(dataset.labels))
    rows = [rng.permutation(np.flatnonzero(targets == c))[: each + (c < more)] for c in range(len(dataset.labels))]
    return chosen(dataset, np.concatenate(rows), f"at most {count}, evenly over the classes, seed {seed}")


def chosen(dataset: Dataset, rows: np.ndarray, note: str) -> Dataset:
    """Some rows in their order."""
    kept = {dataset.clips[i].id for i in rows}
    return dataset.only(lambda clip: clip.id in kept, note)


def in_random_folds(dataset: Dataset, seed: int = 42, count: int = 5) -> Dataset:
    """The folds of scikit-learn's shuffled StratifiedKFold, in place of the dataset's own; fewer where a class has fewer clips."""
    from sklearn.model_selection import StratifiedKFold

    targets = dataset.targets
    count = max(2, min(count, int(np.bincount(targets).min())))
    fold = np.zeros(len(targets), dtype=int)
    for number, (_, test) in enumerate(StratifiedKFold(count, shuffle=True, random_state=seed).split(targets, targets), start=1):
        fold[test] = number
    clips = tuple(replace(clip, fold=int(f)) for clip, f in zip(dataset.clips, fold, strict=True))
    return replace(dataset, clips=clips, folds="stratified", notes={**dataset.notes, "folds": f"StratifiedKFold, seed {seed}"})
