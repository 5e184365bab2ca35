r"""Intervals that hold for all units at once: the largest of many means is large by choice, and its own interval does not know that.

Max-t bootstrap (Romano & Wolf 2005): whole groups of clips are drawn with replacement, the same for all units; with $\hat\theta_u$ the mean
of unit u, $\theta^*_{ru}$ that of resample r and $s_u$ its standard error by groups,
$T_r = \max_u |\theta^*_{ru} - \hat\theta_u| / s_u$, and the interval of every unit is $\hat\theta_u \pm c\, s_u$ with c the quantile of T.
All intervals together cover all means with the probability asked for, so also the best one's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import stats

RESAMPLES = 2000
AT_ONCE = 250


@dataclass(frozen=True)
class Simultaneous:
    """``critical``: c; ``p``: of each unit's mean being zero, corrected for all units (single step). NaN where a unit does not vary."""

    value: Float[np.ndarray, " unit"]
    low: Float[np.ndarray, " unit"]
    high: Float[np.ndarray, " unit"]
    p: Float[np.ndarray, " unit"]
    critical: float


def simultaneous_means(
    values: Float[np.ndarray, "clip unit"], groups: Any = None, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> Simultaneous:
    """Means over clips. ``groups``: the recording of each clip; none: every clip is its own.

    With few groups G both s and the quantiles are too small: s is multiplied by √(G/(G − 1)), and every T is replaced by the quantile of
    Student's t with G − 1 degrees of freedom at the tail probability that T has under the normal distribution.
    """
    values = np.asarray(values, dtype=float)
    _, codes = np.unique(np.arange(len(values)) if groups is None else np.asarray(groups), return_inverse=True)
    sizes = np.bincount(codes).astype(float)
    count, mean = len(sizes), values.mean(0)
    if count < 2:
        nothing = np.full(values.shape[1], np.nan)
        return Simultaneous(mean, nothing, nothing, nothing, float("nan"))
    sums = np.zeros((count, values.shape[1]))
    np.add.at(sums, codes, values - mean)
    rng = np.random.default_rng(seed)
    moved = []
    for start in range(0, resamples, AT_ONCE):
        weights = rng.multinomial(count, np.full(count, 1 / count), size=min(AT_ONCE, resamples - start)).astype(float)
        moved.append(weights @ sums / (weights @ sizes)[:, None])
    shift = np.concatenate(moved)
    spread = np.sqrt((sums**2).sum(0)) / len(values)
    varies = spread > 1e-12 * np.abs(values).max(0)
    largest = np.abs(shift[:, varies] / spread[varies]).max(1, initial=0)
    largest = stats.t.isf(stats.norm.sf(largest), count - 1)
    error = np.where(varies, spread * np.sqrt(count / (count - 1)), np.nan)
    critical = float(np.quantile(largest, level))
    p = (1 + (largest[:, None] >= np.abs(mean / error)).sum(0)) / (1 + len(largest))
    return Simultaneous(mean, mean - critical * error, mean + critical * error, np.where(varies, p, np.nan), critical)
