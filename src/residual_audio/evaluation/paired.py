"""Methods against each other on the same clips: paired intervals, a corrected test over folds, equivalence within a margin, Holm.

Interval and test ask different things: the interval resamples the groups that were tested, the test looks at folds, whose training sets
differ too. See docs/statistics.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import stats

from .significance import Groups, mean_intervals

# Two methods count as equally good where their difference is shown to be smaller than this: two points of accuracy.
MARGIN = 0.02
LEVEL = 0.05
COLUMNS = ("method", "against", "difference", "low", "high", "t", "p", "p_holm", "margin", "p_tost", "equivalent")


def spread(differences: Float[np.ndarray, " fold"], clips: Float[np.ndarray, " fold"] | None = None) -> tuple[float, float]:
    r"""The mean over folds and its standard error by Nadeau & Bengio (2003): $\sqrt{(1/k + n_{test}/n_{train})\, s^2}$.

    The training sets of a cross-validation overlap, so the plain standard error of k folds is too small. ``clips``: of each fold, by
    which folds are weighted, so that the mean is that over clips. NaN where folds do not differ (or there is one): they tell no spread.
    """
    k = len(differences)
    weights = np.ones(k) / k if clips is None else np.asarray(clips, dtype=float) / np.sum(clips)
    mean = float(weights @ differences)
    if k < 2 or np.ptp(differences) <= 1e-12:
        return mean, float("nan")
    variance = float(weights @ (differences - mean) ** 2) * k / (k - 1)
    return mean, float(np.sqrt((1 / k + 1 / (k - 1)) * variance))


def corrected_t(differences: Float[np.ndarray, " fold"], clips: Float[np.ndarray, " fold"] | None = None) -> tuple[float, float]:
    """t and two-sided p of the mean difference over folds; repeats are averaged within a fold before. Equal differences give no p."""
    mean, error = spread(differences, clips)
    t = mean / error
    return t, float(2 * stats.t.sf(abs(t), len(differences) - 1))


def equivalence(differences: Float[np.ndarray, " fold"], margin: float, clips: Float[np.ndarray, " fold"] | None = None) -> float:
    """p of two one-sided tests (Schuirmann 1987) that the difference lies within ± ``margin``: the larger of the two."""
    mean, error = spread(differences, clips)
    above, below = (mean + margin) / error, (mean - margin) / error
    return float(max(stats.t.sf(above, len(differences) - 1), stats.t.cdf(below, len(differences) - 1)))


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's (1979) step-down adjusted p-values; NaN stays NaN and does not count."""
    adjusted = np.full(len(p), np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    running = 0.0
    for rank, i in enumerate(order):
        running = max(running, min(1.0, (len(order) - rank) * p[i]))
        adjusted[i] = running
    return adjusted


def paired_table(
    correct: Mapping[str, np.ndarray], folds: np.ndarray, groups: Groups = None, margin: float = MARGIN, seed: int = 0
) -> pd.DataFrame:
    """Every method against every one before it, the first method's pairs first.

    ``correct[method][clip]``: right or wrong, a mean over repeats; ``folds[clip]``: the fold in which it was tested. ``difference`` is
    the mean over clips, with an interval over groups. ``t`` and ``p``: the corrected test over folds, in which a fold weighs by its
    clips; ``p_holm``: corrected for all pairs of the table. ``equivalent``: shown to differ by less than ``margin`` (``p_tost`` < 0.05).
    """
    _, place = np.unique(folds, return_inverse=True)
    clips = np.bincount(place).astype(float)
    pairs = list(combinations(correct, 2))
    differences = [np.asarray(correct[name], dtype=float) - np.asarray(correct[against], dtype=float) for against, name in pairs]
    # All pairs at once: they are many where methods meet classifiers, and resampling costs more than summing.
    intervals = zip(*mean_intervals(np.stack(differences, 1), groups, seed=seed), strict=True) if pairs else ()
    rows = []
    for (against, name), difference, interval in zip(pairs, differences, intervals, strict=True):
        by_fold = np.bincount(place, weights=difference) / clips
        t, p = corrected_t(by_fold, clips)
        p_tost = equivalence(by_fold, margin, clips)
        rows.append((name, against, *interval, t, p, np.nan, margin, p_tost, bool(p_tost < LEVEL)))
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.assign(p_holm=holm(table.p.to_numpy(dtype=float)))


def against_first(paired: pd.DataFrame) -> pd.DataFrame:
    """The pairs with the baseline, indexed by method."""
    return paired[paired.against == paired.against.iloc[0]].set_index("method") if len(paired) else paired.set_index("method")
