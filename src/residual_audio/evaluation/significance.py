r"""Intervals that resample groups: clips of one speaker, recording or instrument are drawn together or not at all.

Cluster bootstrap (Field & Welsh 2007; Cameron, Gelbach & Miller 2008): of G groups, G are drawn with replacement, so that group g comes
$w_g$ times, and the estimate is the ratio of sums $\sum_g w_g s_g / \sum_g w_g n_g$, where $s_g$ is the sum over the $n_g$ clips of the
group. Without groups every clip is its own. Seeded, vectorised, the same for every measure; see docs/statistics.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from ..rounding import percent
from .metrics import per_class_mean

RESAMPLES = 2000
AT_ONCE = 250
Groups = Sequence[Any] | np.ndarray | None


class Interval(NamedTuple):
    """A point estimate and its interval; both ends are NaN where a single group leaves nothing to resample."""

    value: float
    low: float
    high: float

    def percent(self) -> str:
        return f"{percent(self.value)} [{percent(self.low)}, {percent(self.high)}]"


def group_numbers(groups: Groups, clips: int) -> tuple[np.ndarray, int]:
    """Each clip's group as 0, 1, 2, … in the order in which they come, and how many there are."""
    if groups is None:
        return np.arange(clips), clips
    if len(groups) != clips:
        raise ValueError(f"{len(groups)} groups for {clips} clips")
    number, names = pd.factorize(np.asarray(groups, dtype=object))
    return number, len(names)


def group_sums(values: np.ndarray, number: np.ndarray, count: int) -> np.ndarray:
    """``values [clip, column]`` summed over the clips of each group."""
    sums = np.zeros((count, values.shape[1]))
    np.add.at(sums, number, values)
    return sums


def _weights(count: int, seed: int) -> Iterator[np.ndarray]:
    """How often each of so many groups is drawn, a few hundred resamples at a time."""
    rng = np.random.default_rng(seed)
    for start in range(0, RESAMPLES, AT_ONCE):
        yield rng.multinomial(count, np.full(count, 1 / count), size=min(AT_ONCE, RESAMPLES - start)).astype(float)


def _ends(samples: np.ndarray, level: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Percentiles of ``samples [resample, column]``, a little further out than the level says: at $\Phi(-\sqrt{G/(G-1)}\, t_{G-1})$.

    Percentiles of few draws are too narrow, by the missing degree of freedom and the normal tail (Hesterberg 2015).
    """
    if count < 2:
        return np.full(samples.shape[1:], np.nan), np.full(samples.shape[1:], np.nan)
    tail = stats.norm.sf(np.sqrt(count / (count - 1)) * stats.t.isf((1 - level) / 2, count - 1))
    low, high = np.quantile(samples, [tail, 1 - tail], axis=0)
    return low, high


def mean_intervals(
    values: np.ndarray, groups: Groups = None, level: float = 0.95, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean over clips of every column of ``values [clip, column]``, low and high; the same resamples for all columns."""
    values = np.asarray(values, dtype=float)
    number, count = group_numbers(groups, len(values))
    sums, sizes = group_sums(values, number, count), np.bincount(number, minlength=count).astype(float)
    samples = np.concatenate([(w @ sums) / (w @ sizes)[:, None] for w in _weights(count, seed)])
    return values.mean(0), *_ends(samples, level, count)


def mean_interval(values: np.ndarray, groups: Groups = None, level: float = 0.95, seed: int = 0) -> Interval:
    """The mean over clips; ``groups``: one for each clip."""
    return Interval(*(float(part[0]) for part in mean_intervals(np.asarray(values)[:, None], groups, level, seed)))


def macro_interval(
    values: np.ndarray, targets: np.ndarray, classes: int, groups: Groups = None, level: float = 0.95, seed: int = 0
) -> Interval:
    """The mean over classes of the mean over their clips; a class that a resample misses does not count in it."""
    number, count = group_numbers(groups, len(targets))
    member = np.zeros((len(targets), classes))
    member[np.arange(len(targets)), targets] = 1.0
    right = group_sums(member * np.asarray(values, dtype=float)[:, None], number, count)
    clips = group_sums(member, number, count)

    def macro_of(weights: np.ndarray) -> np.ndarray:
        drawn = weights @ clips
        means = np.divide(weights @ right, drawn, out=np.full(drawn.shape, np.nan), where=drawn > 0)
        return np.nanmean(means, axis=1)

    samples = np.concatenate([macro_of(w) for w in _weights(count, seed)])[:, None]
    return Interval(float(macro_of(np.ones((1, count)))[0]), *(float(end[0]) for end in _ends(samples, level, count)))


def wilson_interval(share: np.ndarray, clips: np.ndarray, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    r"""Wilson's (1927) score interval of a share among ``clips``, which need not be whole: all q with $|p - q| \le z\sqrt{q(1-q)/n}$.

    Never empty and never beyond [0, 1], where the bootstrap of eight clips that were all right has no width at all.
    """
    z = stats.norm.isf((1 - level) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        centre = (share + z**2 / (2 * clips)) / (1 + z**2 / clips)
        reach = z / (1 + z**2 / clips) * np.sqrt(share * (1 - share) / clips + z**2 / (4 * clips**2))
    return np.clip(centre - reach, 0.0, 1.0), np.clip(centre + reach, 0.0, 1.0)


def class_cells(targets: np.ndarray, groups: Groups) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each clip's cell, each cell's clips and class; a cell is a group within a class, so a group in two classes makes two."""
    number, count = group_numbers(groups, len(targets))
    pairs, cell, size = np.unique(targets * count + number, return_inverse=True, return_counts=True)
    return cell, size, pairs // count


def intraclass_correlation(values: np.ndarray, targets: np.ndarray, groups: Groups) -> float:
    r"""How alike clips of one group are beyond their class, 0 to 1: the analysis-of-variance estimate, pooled over classes.

    $\rho = (B - W) / (B + (n_0 - 1) W)$ with the mean squares between and within groups (Donner & Klar 2000). 1 where nothing tells:
    one group in every class, or clips that are all alike; then a group counts as one clip.
    """
    values, targets = np.asarray(values, dtype=float), np.asarray(targets)
    cell, size, owner = class_cells(targets, groups)
    in_class, classes = np.bincount(targets), len(np.unique(targets))
    if len(size) == len(values):
        return 0.0
    if len(size) == classes:
        return 1.0
    mean = np.bincount(cell, weights=values) / size
    class_mean = np.bincount(targets, weights=values)[owner] / in_class[owner]
    between = float((size * (mean - class_mean) ** 2).sum()) / (len(size) - classes)
    within = float(((values - mean[cell]) ** 2).sum()) / (len(values) - len(size))
    typical = (len(values) - float((size**2 / in_class[owner]).sum())) / (len(size) - classes)
    if between + within == 0:
        return 1.0
    return float(np.clip((between - within) / (between + (typical - 1) * within), 0.0, 1.0))


def class_intervals(
    values: np.ndarray, targets: np.ndarray, classes: int, groups: Groups = None, level: float = 0.95
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Accuracy of every class with Wilson's interval, for classes of a few clips.

    Clips of one group tell less than as many independent ones: n clips in groups of $n_g$ count as
    $n / (1 + (\sum_g n_g^2 / n - 1)\rho)$ (Kish 1965), with the correlation ρ of all classes, since a class alone is too small to tell it.
    NaN for a class without clips.
    """
    values, targets = np.asarray(values, dtype=float), np.asarray(targets)
    _, size, owner = class_cells(targets, groups)
    clips = np.bincount(targets, minlength=classes).astype(float)
    share = per_class_mean(values, targets, classes)
    squares = np.bincount(owner, weights=size**2, minlength=classes)
    typical = np.divide(squares, clips, out=np.ones(classes), where=clips > 0)
    correlation = intraclass_correlation(values, targets, groups)
    return share, *wilson_interval(share, clips / (1 + (typical - 1) * correlation), level)
