"""Methods against each other on the same clips: paired intervals, a paired test corrected for overlapping training sets, Holm."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from .significance import mean_interval


def corrected_t(differences: np.ndarray, test_share: float) -> tuple[float, float]:
    r"""Nadeau & Bengio's (2003) resampled t over folds (and repeats): variance $(1/k + n_{test}/n_{train})\, s^2$, two-sided p.

    Training sets of a cross-validation overlap, so the plain paired t is too sure of itself. Equal results everywhere: t = 0, p = 1.
    """
    k = len(differences)
    if k < 2:
        return float("nan"), float("nan")
    mean, variance = float(np.mean(differences)), float(np.var(differences, ddof=1))
    if variance == 0:
        return (0.0, 1.0) if mean == 0 else (float(np.copysign(np.inf, mean)), 0.0)
    t = mean / np.sqrt((1 / k + test_share / (1 - test_share)) * variance)
    return float(t), float(2 * stats.t.sf(abs(t), k - 1))


def holm(p: np.ndarray) -> np.ndarray:
    """Step-down adjusted p-values; NaN stays NaN and does not count."""
    adjusted = np.full(len(p), np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    running = 0.0
    for rank, i in enumerate(order):
        running = max(running, min(1.0, (len(order) - rank) * p[i]))
        adjusted[i] = running
    return adjusted


def paired_table(
    correct: dict[str, np.ndarray], fold_accuracy: dict[str, np.ndarray], against: str, folds: int, seed: int = 0
) -> pd.DataFrame:
    """Every other method against one: the difference with a bootstrap interval over clips, and the corrected test over folds.

    ``correct[method][clip]``: right or wrong (a mean over repeats); ``fold_accuracy[method][fold × repeat]``.
    """
    rows = []
    for name in correct:
        if name == against:
            continue
        interval = mean_interval(correct[name] - correct[against], seed=seed)
        t, p = corrected_t(fold_accuracy[name] - fold_accuracy[against], 1 / folds)
        rows.append(
            {"method": name, "against": against, "difference": interval.value, "low": interval.low, "high": interval.high, "t": t, "p": p}
        )
    table = pd.DataFrame(rows, columns=["method", "against", "difference", "low", "high", "t", "p"])
    return table.assign(p_holm=holm(table.p.to_numpy(dtype=float)))
