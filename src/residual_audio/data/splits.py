"""Split rows so that a group is never in two parts and every class is spread as evenly as its groups allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np


def grouped_parts(labels: Sequence[Any], groups: Sequence[Hashable], shares: Sequence[int], seed: int = 0) -> list[int]:
    r"""The part of each row, from 0: part f gets about ``shares[f]`` of every class, and rows of one group share a part.

    Greedy: the class with the largest group first, inside a class the largest groups first, those of about one size in a seeded random
    order (a group counts for its most frequent class). A group goes where it raises $\sum_{f,c} n_{fc}^2 / (N_c\, s_f)$ least: n clips
    of class c in part f, N in all, s the share. Equals go where the part as a whole is emptiest. So the first group of a class goes to
    the part with the largest share, and without groups the sizes of equal parts differ by at most one, in every class and in all.
    """
    members: dict[Hashable, Counter[Any]] = {}
    for label, group in zip(labels, groups, strict=True):
        members.setdefault(group, Counter())[label] += 1
    total = Counter(labels)
    by_class: dict[Any, list[Hashable]] = {label: [] for label in sorted(total)}
    names = list(members)
    for i in np.random.default_rng(seed).permutation(len(names)).tolist():
        by_class[max(members[names[i]].items(), key=lambda item: (item[1], item[0]))[0]].append(names[i])
    filled = [Counter[Any]() for _ in shares]
    sizes = [0] * len(shares)
    part: dict[Hashable, int] = {}
    # Sizes in powers of two: groups of about one size change places with the seed, so that repeats see different parts.
    ordered = [sorted(own, key=lambda g: -members[g].total().bit_length()) for own in by_class.values() if own]
    for own in sorted(ordered, key=lambda own: -members[own[0]].total()):
        for group in own:
            counts, clips = members[group], members[group].total()
            rise = [sum(n * (2 * there[c] + n) / total[c] for c, n in counts.items()) for there in filled]
            cost = [(rise[f] / share, (2 * sizes[f] + clips) / share, f) for f, share in enumerate(shares)]
            chosen = part[group] = min(cost)[2]
            filled[chosen].update(counts)
            sizes[chosen] += clips
    return [part[group] for group in groups]


def grouped_folds(labels: Sequence[Any], groups: Sequence[Hashable], count: int = 5, seed: int = 0) -> list[int]:
    """Fold numbers from 1: ``count`` equal parts of :func:`grouped_parts`."""
    return [part + 1 for part in grouped_parts(labels, groups, [1] * count, seed)]


def stratified_folds(labels: Sequence[Any], count: int = 5, seed: int = 0) -> list[int]:
    """As :func:`grouped_folds`, every row for itself."""
    return grouped_folds(labels, range(len(labels)), count, seed)
