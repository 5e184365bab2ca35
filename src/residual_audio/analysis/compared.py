"""Representations beside each other, block by block: are MLPs higher-dimensional than heads?"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pandas as pd
from scipy import stats

from .measures import dimension_measures

TESTS = ["measure", "a", "b", "blocks", "mean_a", "mean_b", "difference", "b_higher", "p", "note"]


def by_block(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The means over a block's units of every measure, representation below representation; clip level only."""
    blocks = tables["blocks"][tables["blocks"]["level"] == "clip"]
    names = [m.name for m in dimension_measures() if m.name in blocks]
    places = ["stage", "block", "depth"]
    shown = blocks[blocks["block"] >= 0].rename(columns={"regime": "representation", "heads": "units"})
    return shown[["representation", *places, "units", *names]].reset_index(drop=True)


def compared(rows: pd.DataFrame) -> pd.DataFrame:
    """Every two representations over the blocks that both have: means, mean difference (b − a), and Wilcoxon's signed ranks (two-sided)."""
    found = []
    for measure in [m.name for m in dimension_measures() if m.name in rows]:
        wide = rows.pivot_table(index=["stage", "block"], columns="representation", values=measure, sort=False)
        for a, b in combinations(wide.columns, 2):
            both = wide[[a, b]].dropna()
            change = (both[b] - both[a]).to_numpy(float)
            row = {"measure": measure, "a": a, "b": b, "blocks": len(both), "p": np.nan, "note": ""}
            if not len(both):
                continue
            row |= {"mean_a": both[a].mean(), "mean_b": both[b].mean(), "difference": change.mean(), "b_higher": float((change > 0).mean())}
            if len(both) < 6:
                row["note"] = "fewer than six blocks: no p can be below 0.05"
            if np.any(change != 0):
                row["p"] = float(stats.wilcoxon(change).pvalue)
            found.append(row)
    return pd.DataFrame(found, columns=TESTS)
