"""Some of many rows: which clips a limit keeps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

Labels = Sequence[Any]
Folds = Sequence[Hashable]


def stratified_rows(labels: Labels, folds: Folds, count: int, seed: int = 0) -> list[int]:
    """``count`` rows spread evenly over classes, and inside a class over its folds; the rows of a class and fold at random.

    Classes take turns, the first classes by name once more where the count is no multiple. Class c starts with its fold number c, so
    that the folds of the whole differ by little. Invariant: unless a class (or a fold of a class) has too few rows, the sizes of any two
    classes (or any two folds inside a class) differ by at most one.
    """
    places: dict[Any, dict[Hashable, list[int]]] = defaultdict(lambda: defaultdict(list))
    for i in np.random.default_rng(seed).permutation(len(labels)).tolist():
        places[labels[i]][folds[i]].append(i)
    every = sorted(set(folds), key=lambda fold: (str(type(fold)), fold))
    turns: list[tuple[int, int, int]] = []
    for number, label in enumerate(sorted(places)):
        own = {(every.index(fold) - number) % len(every): rows for fold, rows in places[label].items()}
        in_turn = sorted((again, place, row) for place, rows in own.items() for again, row in enumerate(rows))
        turns += [(turn, number, row) for turn, (_, _, row) in enumerate(in_turn)]
    return sorted(row for _, _, row in sorted(turns)[:count])


def first_rows(labels: Labels, folds: Folds, count: int, seed: int = 0) -> list[int]:
    """The first rows of each class in turn: as they are listed, so often of the first folds only. Nothing is random."""
    rank: dict[Any, int] = {}
    turn = []
    for label in labels:
        rank[label] = rank.get(label, -1) + 1
        turn.append(rank[label])
    return sorted(sorted(range(len(labels)), key=turn.__getitem__)[:count])


SAMPLES: dict[str, Callable[[Labels, Folds, int, int], list[int]]] = {"stratified": stratified_rows, "first": first_rows}
