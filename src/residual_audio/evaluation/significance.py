"""Intervals by bootstrap over clips: seeded, vectorised, the same for every measure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

RESAMPLES = 2000
AT_ONCE = 250


class Interval(NamedTuple):
    """A point estimate and its percentile bootstrap interval."""

    value: float
    low: float
    high: float

    def percent(self) -> str:
        return f"{100 * self.value:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"


def _quantiles(samples: np.ndarray, level: float) -> tuple[float, float]:
    tail = (1 - level) / 2
    low, high = np.quantile(samples, [tail, 1 - tail])
    return float(low), float(high)


def _weights(n: int, seed: int):
    """How often each of n clips is drawn, a few hundred resamples at a time."""
    rng = np.random.default_rng(seed)
    for start in range(0, RESAMPLES, AT_ONCE):
        yield rng.multinomial(n, np.full(n, 1 / n), size=min(AT_ONCE, RESAMPLES - start))


def mean_interval(values: np.ndarray, level: float = 0.95, seed: int = 0) -> Interval:
    """The mean over clips."""
    values = np.asarray(values, dtype=float)
    samples = np.concatenate([w @ values for w in _weights(len(values), seed)]) / len(values)
    return Interval(float(values.mean()), *_quantiles(samples, level))


def mean_intervals(values: np.ndarray, level: float = 0.95, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean over clips of every column of ``values [clip, column]``, low and high; the same resamples for all columns."""
    values = np.asarray(values, dtype=float)
    samples = np.concatenate([w @ values for w in _weights(len(values), seed)]) / len(values)
    tail = (1 - level) / 2
    low, high = np.quantile(samples, [tail, 1 - tail], axis=0)
    return values.mean(0), low, high


def macro_interval(values: np.ndarray, targets: np.ndarray, classes: int, level: float = 0.95, seed: int = 0) -> Interval:
    """The mean over classes of the mean over their clips; a class that a resample misses does not count in it."""
    member = np.zeros((len(targets), classes))
    member[np.arange(len(targets)), targets] = 1.0
    right = member * np.asarray(values, dtype=float)[:, None]

    def macro_of(weights: np.ndarray) -> np.ndarray:
        count = weights @ member
        means = np.divide(weights @ right, count, out=np.full(count.shape, np.nan), where=count > 0)
        return np.nanmean(means, axis=1)

    samples = np.concatenate([macro_of(w) for w in _weights(len(targets), seed)])
    return Interval(float(macro_of(np.ones((1, len(targets))))[0]), *_quantiles(samples, level))
