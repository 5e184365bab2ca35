r"""p values by permutation: exact where all arrangements can be counted, else from a seeded sample of them with the observed one in it.

p = share of arrangements (the observed one is one of them) whose statistic is at least as far from zero as the observed one. It is valid
for any number of arrangements and never below 1 / arrangements (Phipson & Smyth 2010). What is exchangeable is what is permuted: units
that are independent, the labels of blocks where units of one block share their input, or units within their block.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations
from math import factorial, prod
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import stats

MOST = 8  # 8! = 40,320 arrangements are counted; of more, a sample is drawn
SAMPLE = 9_999
ROUNDING = 1e-9  # statistics closer together than this, relative to the observed one, are equal


class Correlation(NamedTuple):
    """A coefficient, its two-sided p value and the number of complete pairs; NaN where it is not defined."""

    value: float
    p: float
    n: int


@lru_cache(maxsize=32)
def arrangements(n: int, seed: int = 0) -> Int[np.ndarray, "arrangement n"]:
    """All orders of n things where they are few, else the given order and a sample; the given order is the first."""
    if n <= MOST:
        return np.array(list(permutations(range(n))), dtype=np.int64)
    drawn = np.random.default_rng(seed).permuted(np.tile(np.arange(n), (SAMPLE, 1)), axis=1)
    return np.vstack([np.arange(n), drawn])


def two_sided(statistic: Float[np.ndarray, " arrangement"]) -> float:
    """The first is the observed one."""
    far = np.abs(statistic)
    return float((far >= far[0] * (1 - ROUNDING)).mean())


def one_sided(statistic: Float[np.ndarray, " arrangement"]) -> float:
    """Large is extreme; the first is the observed one."""
    return float((statistic >= statistic[0] - ROUNDING * abs(statistic[0])).mean())


def complete(*columns: Any) -> list[np.ndarray]:
    """The columns at the places where all are finite."""
    arrays = [np.asarray(c, float) for c in columns]
    known = np.logical_and.reduce([np.isfinite(a) for a in arrays])
    return [a[known] for a in arrays]


def coefficient(x: Any, y: Any, kind: str) -> tuple[float, int]:
    """Spearman's or Pearson's coefficient over complete pairs, and how many there are."""
    x, y = complete(x, y)
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan"), len(x)
    return float((stats.spearmanr if kind == "spearman" else stats.pearsonr)(x, y).statistic), len(x)


def correlation(x: Any, y: Any, kind: str) -> Correlation:
    """The coefficient and its p, the pairs taken as independent: exact for up to eight pairs, Student's t beyond."""
    x, y = complete(x, y)
    value, n = coefficient(x, y, kind)
    if np.isnan(value):
        return Correlation(value, float("nan"), n)
    if n > MOST:
        return Correlation(value, float((stats.spearmanr if kind == "spearman" else stats.pearsonr)(x, y).pvalue), n)
    a, b = (_centred(stats.rankdata(v) if kind == "spearman" else v) for v in (x, y))
    return Correlation(value, two_sided(b[arrangements(n)] @ a), n)


def partial_correlation(x: Any, y: Any, given: Any, kind: str = "spearman", seed: int = 0) -> Correlation:
    """The correlation of x and y within the groups of ``given`` (depth): ranks (or values) about the mean of their group.

    Whatever changes from group to group, in any shape, is taken out. p: y permuted within groups, exact where those arrangements are
    few. ``n`` counts pairs in groups of two and more; others say nothing.
    """
    x, y, given = complete(x, y, given)
    if kind == "spearman" and len(x):
        x, y = stats.rankdata(x), stats.rankdata(y)
    members = [np.flatnonzero(given == g) for g in np.unique(given)]
    members = [m for m in members if len(m) > 1]
    a, b = ([_centred(v[m]) for m in members] for v in (x, y))
    n, length = sum(map(len, members)), np.sqrt(sum(float(v @ v) for v in a) * sum(float(v @ v) for v in b))
    if n < 3 or length <= ROUNDING * max(1.0, float(np.abs(x).max() * np.abs(y).max())):
        return Correlation(float("nan"), float("nan"), n)
    if prod(factorial(min(len(m), MOST + 1)) for m in members) <= factorial(MOST):
        moved = np.zeros(1)
        for own, other in zip(a, b, strict=True):
            moved = np.add.outer(moved, other[arrangements(len(own))] @ own).ravel()
    else:
        rng, moved = np.random.default_rng(seed), np.zeros(1 + SAMPLE)
        for own, other in zip(a, b, strict=True):
            moved += np.vstack([other, rng.permuted(np.tile(other, (SAMPLE, 1)), axis=1)]) @ own
    return Correlation(float(moved[0] / length), two_sided(moved), n)


class Trend(NamedTuple):
    """Spearman's correlation with depth; p over ``arrangements`` of the labels of ``blocks``."""

    value: float
    p: float
    blocks: int
    arrangements: int


def block_trend(values: Float[np.ndarray, " unit"], depth: Float[np.ndarray, " unit"], seed: int = 0) -> Trend:
    """Do values rise with depth? Units of one block share their depth and their input: whole blocks change places, units never do."""
    labels, block, sizes = np.unique(depth, return_inverse=True, return_counts=True)
    ranks = _centred(stats.rankdata(values))
    sums = np.bincount(block, ranks)
    orders = arrangements(len(labels), seed)
    # orders[a, p]: the block at place p. Its units share the mean of the ranks of depth that they fill there.
    placed = sizes[orders]
    middle = placed.cumsum(1) - placed / 2 - len(values) / 2
    along = (sums[orders] * middle).sum(1) / np.sqrt((placed * middle**2).sum(1) * (ranks @ ranks))
    return Trend(float(along[0]), two_sided(along), len(labels), len(orders))


def block_spread(
    values: Float[np.ndarray, " unit"], block: Int[np.ndarray, " unit"], stage: Int[np.ndarray, " unit"], seed: int = 0
) -> float:
    """p of the squares between stages with whole blocks dealt out to the stages anew, each stage keeping its number of blocks.

    F and H both rise with those squares, so this is the p of ANOVA (values) and of Kruskal–Wallis (ranks) with blocks as samples. NaN
    where every stage has one block: nothing can change.
    """
    labels, first, at = np.unique(block, return_index=True, return_inverse=True)
    stages, of = np.unique(stage[first], return_inverse=True)
    if len(labels) == len(stages) or len(stages) < 2:
        return float("nan")
    sizes, sums = np.bincount(at), np.bincount(at, _centred(values))
    orders = arrangements(len(labels), seed)
    between = np.zeros(len(orders))
    for s in range(len(stages)):
        dealt = orders[:, of == s]
        between += sums[dealt].sum(1) ** 2 / sizes[dealt].sum(1)
    return one_sided(between)


def _centred(values: np.ndarray) -> np.ndarray:
    return np.asarray(values - values.mean())
