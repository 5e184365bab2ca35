r"""Does a measure rise, fall, or go up and down again through the network: the "hunchback" of intrinsic dimension?

Of the means of blocks over depth from 0 to 1: where the largest is; the quadratic $a + bx + cx^2$; and the best monotonic curve, rising or
falling (isotonic regression). The monotonic one has as many free steps as it likes and still must not turn, so a quadratic that explains
more than it is evidence of a turn. Intervals: heads are drawn again within their block; where a block has one unit, its standard error is
used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

Curves = Float[np.ndarray, "curve block"]
Figures = Float[np.ndarray, " curve"]
RESAMPLES = 499
FEWEST = 4  # blocks: a quadratic goes through any three
COLUMNS = ["measure", "blocks", "peak", "peak_depth", "peak_low", "peak_high", "curvature", "curvature_low", "curvature_high", "turn",
           "r2_quadratic", "r2_monotonic", "gain", "gain_low", "gain_high", "shape", "note"]  # fmt: skip


def rising(means: Curves) -> Curves:
    r"""The least-squares fit that never falls: $\max_{j \le i} \min_{k \ge i}$ of the mean from j to k (Robertson et al. 1988)."""
    blocks = means.shape[1]
    sums = np.concatenate([np.zeros((len(means), 1)), means.cumsum(1)], 1)
    first, last = np.mgrid[:blocks, :blocks]
    between = np.where(first <= last, (sums[:, 1:][:, None, :] - sums[:, :-1][:, :, None]) / np.maximum(last - first + 1, 1), np.inf)
    least = np.minimum.accumulate(between[:, :, ::-1], 2)[:, :, ::-1]
    return np.asarray(np.where(first <= last, least, -np.inf).max(1))


def explained(means: Curves, fitted: Curves) -> Figures:
    total = ((means - means.mean(1, keepdims=True)) ** 2).sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(1 - ((means - fitted) ** 2).sum(1) / total)


def described(means: Curves, x: Float[np.ndarray, " block"]) -> dict[str, Figures]:
    """The figures of each curve. ``gain``: what the quadratic explains more than the best monotonic curve."""
    c, b, a = np.polyfit(x, means.T, 2)[:, :, None]
    up, down = explained(means, rising(means)), explained(means, -rising(-means))
    quadratic, monotonic = explained(means, a + b * x + c * x**2), np.maximum(up, down)
    with np.errstate(divide="ignore", invalid="ignore"):
        turn = (-b / (2 * c))[:, 0]
    return {"peak_depth": x[means.argmax(1)], "curvature": c[:, 0], "turn": turn, "r2_quadratic": quadratic, "r2_monotonic": monotonic,
            "gain": quadratic - monotonic, "rises": np.sign(up - down)}  # fmt: skip


def resampled_means(groups: Sequence[pd.DataFrame], measure: str, seed: int) -> Curves | None:
    """Means of blocks of resamples; None where nothing says how much they vary."""
    rng = np.random.default_rng(seed)
    values = [g[measure].dropna().to_numpy(float) for g in groups]
    if all(len(v) > 1 for v in values):
        return np.stack([rng.choice(v, (RESAMPLES, len(v))).mean(1) for v in values], 1)
    error = f"{measure}_se"
    errors = [g[error].to_numpy(float) for g in groups if error in g]
    if len(errors) == len(groups) and all(len(v) == 1 and np.isfinite(e).all() for v, e in zip(values, errors, strict=True)):
        return np.stack([rng.normal(v[0], e[0], RESAMPLES) for v, e in zip(values, errors, strict=True)], 1)
    return None


def verdict(row: dict[str, Any]) -> str:
    """``hunchback``, ``valley``: curved that way, turning inside the network, the quadratic ahead of all monotonic curves, at 95 %."""
    if np.isfinite(row["gain_low"]) and row["gain_low"] > 0 and 0 < row["turn"] < 1:
        if row["curvature_high"] < 0:
            return "hunchback"
        if row["curvature_low"] > 0:
            return "valley"
    if np.isfinite(row["gain_high"]) and row["gain_high"] < 0:
        return "rising" if row["rises"] > 0 else "falling"
    return "undecided"


def shapes(heads: pd.DataFrame, measures: Sequence[str], seed: int = 0) -> pd.DataFrame:
    """One row per measure."""
    rows = []
    for measure in measures:
        known = heads[np.isfinite(heads[measure].astype(float))]
        groups = [part for _, part in known.groupby("depth")]
        row: dict[str, Any] = dict.fromkeys(COLUMNS, float("nan")) | {"measure": measure, "blocks": len(groups), "peak": "", "shape": ""}
        means = np.array([g[measure].mean() for g in groups])
        if len(groups) < FEWEST or np.ptp(means) == 0:
            rows.append({**row, "note": f"{len(groups)} blocks: too few" if len(groups) < FEWEST else "all blocks are equal"})
            continue
        depth = np.array([g["depth"].iloc[0] for g in groups], float)
        x = (depth - depth[0]) / (depth[-1] - depth[0])
        top = groups[int(means.argmax())].iloc[0]
        label = str(top["label"]) if top["block"] < 0 else f"S{int(top['stage'])}B{int(top['block'])}"
        row |= {name: float(value[0]) for name, value in described(means[None], x).items()} | {"peak": label, "note": ""}
        again = resampled_means(groups, measure, seed)
        if again is not None:
            found = described(again, x)
            for name, column in (("peak", "peak_depth"), ("curvature", "curvature"), ("gain", "gain")):
                row[f"{name}_low"], row[f"{name}_high"] = np.nanpercentile(found[column], [2.5, 97.5], method="nearest")
        else:
            row["note"] = "one unit per block and no error of it: no intervals"
        rows.append({**row, "shape": verdict(row)})
    return pd.DataFrame(rows, columns=COLUMNS)
