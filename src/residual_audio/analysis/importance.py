"""Do measures of a unit say what it is worth? Fisher ratio and spectral entropy against what ablation costs, as a table."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from jaxtyping import Float, Real
from scipy import stats

from .permutation import complete, correlation, partial_correlation

ASKED = ("fisher", "entropy")
COSTS = ("accuracy_drop", "margin_drop")
RESAMPLES = 2_000
FEWEST = 5  # blocks that are resampled
COLUMNS = ["unit", "measure", "cost", "correlation", "value", "low", "high", "p", "n", "blocks", "note"]


def block_interval(
    x: Float[np.ndarray, " unit"], y: Float[np.ndarray, " unit"], block: Real[np.ndarray, " unit"], seed: int = 0
) -> tuple[float, float]:
    """The 95 % interval of Pearson's coefficient over resamples of whole blocks, whose units are not independent; NaN below five blocks.

    Sums over a resample are weighted sums over blocks. Of ranks it is Spearman's coefficient, with the ranks among all units kept.
    """
    _, at = np.unique(block, return_inverse=True)
    count = int(at.max()) + 1
    if count < FEWEST:
        return float("nan"), float("nan")
    x, y = x - x.mean(), y - y.mean()
    sums = np.stack([np.bincount(at, v) for v in (np.ones_like(x), x, y, x * x, y * y, x * y)], 1)
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=RESAMPLES)
    n, sx, sy, sxx, syy, sxy = (drawn @ sums).T
    spread = (n * sxx - sx**2) * (n * syy - sy**2)
    values = (n * sxy - sx * sy)[spread > 0] / np.sqrt(spread[spread > 0])
    low, high = np.percentile(values, [2.5, 97.5]) if len(values) else (np.nan, np.nan)
    return float(low), float(high)


def within(values: Float[np.ndarray, " unit"], block: Real[np.ndarray, " unit"]) -> Float[np.ndarray, " unit"]:
    """Ranks about the mean of their block, as :func:`.permutation.partial_correlation` takes them."""
    ranks = pd.Series(stats.rankdata(values))
    return np.asarray(ranks - ranks.groupby(block).transform("mean"))


def correlations(unit: str, measure: str, cost: str, joined: pd.DataFrame, seed: int) -> list[dict[str, object]]:
    """Pearson's, Spearman's and, of heads, Spearman's within blocks."""
    x, y, depth = complete(joined[measure], joined[cost], joined["depth"])
    blocks = len(np.unique(depth))
    about = {
        "unit": unit,
        "measure": measure,
        "cost": cost,
        "blocks": blocks,
        "note": "" if blocks >= FEWEST else "too few blocks to resample",
    }
    rows = []
    for kind in ("pearson", "spearman"):
        found = correlation(x, y, kind)
        a, b = (x, y) if kind == "pearson" else (stats.rankdata(x), stats.rankdata(y))
        low, high = block_interval(a, b, depth, seed) if np.isfinite(found.value) else (np.nan, np.nan)
        rows.append({**about, "correlation": kind, "value": found.value, "low": low, "high": high, "p": found.p, "n": found.n})
    if unit == "head":
        found = partial_correlation(x, y, depth, seed=seed)
        low, high = block_interval(within(x, depth), within(y, depth), depth, seed) if np.isfinite(found.value) else (np.nan, np.nan)
        rows.append(
            {**about, "correlation": "spearman given depth", "value": found.value, "low": low, "high": high, "p": found.p, "n": found.n}
        )
    return rows


def importance(tables: Mapping[str, pd.DataFrame], seed: int = 0) -> pd.DataFrame:
    """Of the tables of one regime and of ablations: ``heads`` with ``ablation_head``, ``blocks`` with ``ablation_block``; else no rows."""
    rows: list[dict[str, object]] = []
    for unit, table, keys in (("head", "heads", ["label"]), ("block", "blocks", ["stage", "block"])):
        own, ablation = tables.get(table), tables.get(f"ablation_{unit}")
        if own is None or ablation is None:
            continue
        for measure in (m for m in ASKED if m in own):
            joined = own[[*keys, "depth", measure]].merge(ablation[[*keys, *COSTS]], on=keys)
            for cost in COSTS:
                rows += correlations(unit, measure, cost, joined, seed)
    return pd.DataFrame(rows, columns=COLUMNS)
