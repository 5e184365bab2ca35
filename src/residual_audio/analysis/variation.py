"""How much heads of a stage differ, what happens at the borders between stages, and how many heads no single axis dominates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from .group_tests import constant

DOMINANT = 0.5  # a first axis that holds less than this part of the variance does not dominate


def _values(rows: pd.DataFrame, measure: str) -> np.ndarray:
    values = rows[measure].to_numpy(float)
    return values[np.isfinite(values)]


def _cv(values: np.ndarray) -> float:
    """Standard deviation (n − 1) over mean; NaN for fewer than two values and about a mean of zero."""
    return float(values.std(ddof=1) / abs(values.mean())) if len(values) > 1 and values.mean() != 0 else float("nan")


def variation(heads: pd.DataFrame, measures: Sequence[str]) -> pd.DataFrame:
    """The coefficient of variation over the heads of each stage, and over all heads."""
    groups = [*((f"S{int(s)}", rows) for s, rows in heads.groupby("stage")), ("all", heads)]
    rows = []
    for measure in measures:
        for stage, part in groups:
            values = _values(part, measure)
            mean = float(values.mean()) if len(values) else float("nan")
            spread = float(values.std(ddof=1)) if len(values) > 1 else float("nan")
            rows.append({"stage": stage, "measure": measure, "n": len(values), "mean": mean, "std": spread, "cv": _cv(values)})
    return pd.DataFrame(rows)


def difference(before: np.ndarray, after: np.ndarray) -> dict[str, float]:
    """The difference of two means with Welch's 95 % interval, heads taken as independent; no interval below two values."""
    found = {"before": float(before.mean()), "after": float(after.mean()), "difference": float(after.mean() - before.mean())}
    found |= {"relative": found["difference"] / abs(found["before"]) if found["before"] else float("nan")}
    if min(len(before), len(after)) > 1 and not (constant(before) and constant(after)):
        a, b = (float(v.var(ddof=1)) / len(v) for v in (before, after))
        df = (a + b) ** 2 / (a**2 / (len(before) - 1) + b**2 / (len(after) - 1))  # Welch & Satterthwaite
        reach = float(stats.t.ppf(0.975, df)) * float(np.sqrt(a + b))
        return {**found, "low": found["difference"] - reach, "high": found["difference"] + reach}
    return {**found, "low": float("nan"), "high": float("nan")}


def place_name(row: pd.Series) -> str:
    """``S2B1``; of the ends of stages, which are in no block, their own label."""
    return str(row["label"]) if row["block"] < 0 else f"S{int(row['stage'])}B{int(row['block'])}"


def borders(heads: pd.DataFrame, measures: Sequence[str]) -> pd.DataFrame:
    """Every step from one block to the next, and from one stage to the next.

    ``border``: the step leaves a stage. ``against_inner``: its size over the mean size of the steps inside stages, the jump's measure.
    """
    rows: list[dict[str, Any]] = []
    for measure in measures:
        blocks = [(place_name(p.iloc[0]), p) for _, p in heads.groupby("depth")]
        stages = [(f"S{int(s)}", p) for s, p in heads.groupby("stage")]
        steps: list[dict[str, Any]] = []
        for kind, groups in (("block", blocks), ("stage", stages)):
            for (a, left), (b, right) in pairwise(groups):
                first, second = _values(left, measure), _values(right, measure)
                if len(first) and len(second):
                    crossed = kind == "stage" or int(left["stage"].iloc[0]) != int(right["stage"].iloc[0])
                    steps.append({"measure": measure, "step": kind, "a": a, "b": b, "border": crossed, **difference(first, second)})
        inner = [abs(s["difference"]) for s in steps if s["step"] == "block" and not s["border"]]
        typical = float(np.mean(inner)) if inner else 0.0
        rows += [{**s, "against_inner": abs(s["difference"]) / typical if typical else float("nan")} for s in steps]
    columns = ["measure", "step", "a", "b", "border", "before", "after", "difference", "relative", "low", "high", "against_inner"]
    return pd.DataFrame(rows, columns=columns)


def dominance(heads: pd.DataFrame) -> pd.DataFrame:
    """The share of heads whose first axis holds less than half of the variance, with Wilson's interval, by stage and in all."""
    rows = []
    for stage, part in [*((f"S{int(s)}", rows) for s, rows in heads.groupby("stage")), ("all", heads)]:
        values = _values(part, "evr_1")
        if not len(values):
            continue
        below = int((values < DOMINANT).sum())
        ends = stats.binomtest(below, len(values)).proportion_ci(method="wilson")
        rows.append({"stage": stage, "n": len(values), "below": below, "share": below / len(values), "low": ends.low, "high": ends.high})
    return pd.DataFrame(rows, columns=["stage", "n", "below", "share", "low", "high"])


def dataset_variation(heads: Mapping[str, pd.DataFrame], measures: Sequence[str]) -> pd.DataFrame:
    """The coefficient of variation across data sets: of the mean of each stage, and of the step between stages."""
    found: dict[tuple[str, str], list[float]] = {}
    for table in heads.values():
        means = table.groupby("stage")[list(measures)].mean()
        for measure in measures:
            for stage, value in means[measure].items():
                found.setdefault((measure, f"S{int(stage)}"), []).append(float(value))
            for a, b in pairwise(means.index):
                found.setdefault((measure, f"S{int(a)}→S{int(b)}"), []).append(float(means[measure][b] - means[measure][a]))
    rows = []
    for (measure, place), values in found.items():
        known = np.array([v for v in values if np.isfinite(v)])
        mean = float(known.mean()) if len(known) else float("nan")
        spread = float(known.std(ddof=1)) if len(known) > 1 else float("nan")
        rows.append({"measure": measure, "place": place, "datasets": len(known), "mean": mean, "std": spread, "cv": _cv(known)})
    return pd.DataFrame(rows)
