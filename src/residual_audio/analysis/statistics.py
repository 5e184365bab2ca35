"""Do the heads' measures differ between stages, blocks or data sets, by how much, and do they rise with depth?

Every function takes the tidy ``heads`` table (one row per head; several data sets lie below each other with a ``dataset`` column).
Values that are not finite are left out and ``n`` counts what was used. A test that is not defined has NaN and a ``note`` that says why.
The p values take the heads as independent draws; heads of one block share their input, so read p as a description, effects first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy import optimize, stats

from .errors import AnalysisError

NEEDED = {"stage": ["stage"], "depth": ["stage", "block", "depth"], "dataset": ["dataset", "stage", "label"]}  # by what is grouped
Groups = dict[str, np.ndarray]
Row = dict[str, Any]

STATISTICS = ["scope", "dataset", "stage", "measure", "test", "statistic", "df_between", "df_within", "p", "effect", "stars", "n", "note"]
PAIRWISE = ["scope", "dataset", "stage", "measure", "a", "b", "n_a", "n_b", "difference", "tukey_p", "tukey_low", "tukey_high",
            "t", "t_p", "bonferroni_p", "cohens_d", "d_low", "d_high", "note"]  # fmt: skip
TREND = ["dataset", "measure", "spearman", "p", "stars", "n", "note"]
WORDS = {"scope", "dataset", "stage", "measure", "test", "stars", "note", "a", "b"}
COUNTS = {"n", "n_a", "n_b"}

NOISE = 1e-12  # values closer together than this, relative to their size, differ by rounding only
LARGE_T = 1000.0  # beyond it the noncentral t is its own limit to six digits, and its distribution function is no longer reliable


def stars(p: float) -> str:
    """``***`` below 0.001, ``**`` below 0.01, ``*`` below 0.05, ``ns`` above, nothing where there is no p."""
    if np.isnan(p):
        return ""
    return "***" if p < 0.001 else "**" if p < 0.01 else "*" if p < 0.05 else "ns"


def stage_tests(heads: pd.DataFrame, measures: Sequence[str], by: str = "stage") -> pd.DataFrame:
    """One-way ANOVA and Kruskal–Wallis between the stages (blocks: ``by="depth"``, data sets: ``by="dataset"``).

    Effects: η² = SS_between / SS_total and ε² = H / (n − 1). A model of one stage has nothing to compare: no rows.
    """
    rows = []
    for family, groups in _families(heads, measures, by):
        for measure in measures:
            values = _values(groups, measure)
            rows += [{**family, "measure": measure, **test(values)} for test in (_anova, _kruskal)]
    return _frame(rows, STATISTICS)


def dataset_tests(heads: pd.DataFrame, measures: Sequence[str]) -> pd.DataFrame:
    """The same tests between data sets, for each stage and for all heads of one model, and their paired version.

    ANOVA and Kruskal–Wallis take the data sets as independent samples of heads, as the papers do. They are the same heads, so the
    paired test is the sharper one: Friedman for three and more (effect: Kendall's W = χ² / (n (k − 1))), Wilcoxon's signed ranks
    for two (effect: rank-biserial correlation, positive where the second data set is higher). It uses the heads that have a value
    in every data set. One data set: no rows. Heads of different models are different heads even where they have the same label: a table
    whose ``model`` column names several is refused.
    """
    if "model" in heads and heads["model"].nunique() > 1:
        names = " and ".join(map(str, heads["model"].unique()))
        raise AnalysisError(f"heads of different models ({names}) cannot be paired; compare runs of one model with each other")
    rows = []
    for family, groups in _families(heads, measures, "dataset"):
        for measure in measures:
            values = _values(groups, measure)
            outcomes = [_anova(values), _kruskal(values), _paired(groups, measure)]
            rows += [{**family, "measure": measure, **outcome} for outcome in outcomes]
    return _frame(rows, STATISTICS)


def pairwise(heads: pd.DataFrame, measures: Sequence[str], by: str = "stage") -> pd.DataFrame:
    """Every pair of stages (blocks, data sets): Tukey's HSD, Student's t with Bonferroni, Cohen's d with a 95 % interval.

    ``difference`` is mean_b − mean_a, and t and d have its sign. Tukey(–Kramer) pools the variance of all groups of the family;
    t and d that of the two: d = (mean_b − mean_a) / s, s² = ((n_a − 1) s_a² + (n_b − 1) s_b²) / (n_a + n_b − 2).
    The interval of d inverts the noncentral t (see `cohens_d_interval`). Bonferroni counts the family's pairs that could be tested.
    """
    rows = []
    for family, groups in _families(heads, measures, by):
        for measure in measures:
            rows += [{**family, "measure": measure, **pair} for pair in _pairs(_values(groups, measure))]
    return _frame(rows, PAIRWISE)


def trend(heads: pd.DataFrame, measures: Sequence[str]) -> pd.DataFrame:
    """Spearman's rank correlation of each measure with depth (the block, counted through the network), per data set."""
    _check(heads, ["depth", *measures])
    rows = []
    for dataset, part in _datasets(heads):
        for measure in measures:
            known = part[np.isfinite(part[measure].astype(float))]
            values, depth = known[measure].to_numpy(float), known["depth"].to_numpy(float)
            rho, p, note = np.nan, np.nan, ""
            if len(values) < 3:
                note = f"{_count(len(values))} in all; a rank correlation needs three"
            elif _constant(values) or _constant(depth):
                note = "all values are equal" if _constant(values) else "all heads have the same depth"
            else:
                rho, p = stats.spearmanr(depth, values)
            row = {"dataset": dataset, "measure": measure, "spearman": rho, "p": p, "stars": stars(p), "n": len(values), "note": note}
            rows.append(row)
    return _frame(rows, TREND)


def cohens_d_interval(d: float, n_a: int, n_b: int, level: float = 0.95) -> tuple[float, float]:
    r"""The interval of Cohen's d by inverting the noncentral t.

    $t = d / c$ with $c = \sqrt{1/n_a + 1/n_b}$ follows a noncentral t with $n_a + n_b - 2$ degrees of freedom and noncentrality
    $\delta / c$; the ends are the δ for which the observed t lies at the upper and at the lower tail.
    """
    scale, df, tail = np.sqrt(1 / n_a + 1 / n_b), n_a + n_b - 2, (1 - level) / 2
    return scale * _noncentrality(d / scale, df, 1 - tail), scale * _noncentrality(d / scale, df, tail)


def _noncentrality(t: float, df: int, p: float) -> float:
    """The noncentrality for which P(T ≤ t) = p; P falls as it rises."""
    if abs(t) > LARGE_T:
        # T = (Z + δ) / U, U² = χ²/df: with Z forgotten, P(T ≤ t) = P(U ≥ δ / t) for t > 0 and P(U ≤ δ / t) for t < 0.
        return float(t * np.sqrt(stats.chi2.ppf(1 - p if t > 0 else p, df) / df))
    spread = np.sqrt(1 + t * t / (2 * df))
    guess = t - stats.norm.ppf(p) * spread  # normal approximation; far from it the distribution function is not finite
    low, high = guess - spread / 4, guess + spread / 4
    while stats.nct.cdf(t, df, low) < p:
        low -= spread / 2
    while stats.nct.cdf(t, df, high) > p:
        high += spread / 2
    return float(optimize.brentq(lambda delta: stats.nct.cdf(t, df, delta) - p, low, high))


def _families(heads: pd.DataFrame, measures: Sequence[str], by: str) -> Iterator[tuple[dict[str, str], dict[str, pd.DataFrame]]]:
    """What is compared with what: the columns that name the comparison, and the rows of each of its groups (two at least)."""
    if by not in NEEDED:
        raise ValueError(f"heads are grouped by {', '.join(NEEDED)}, not by {by!r}")
    _check(heads, [*NEEDED[by], *measures])
    if by != "dataset":
        for dataset, part in _datasets(heads):
            groups = {_group_name(rows, by): rows for _, rows in part.groupby(by)}
            if len(groups) > 1:
                yield {"scope": by, "dataset": dataset, "stage": "all"}, groups
        return
    parts = dict(_datasets(heads))
    if len(parts) < 2:
        return
    stages = sorted(heads["stage"].unique())
    for stage in stages if len(stages) > 1 else []:
        family = {"scope": by, "dataset": ", ".join(parts), "stage": f"S{int(stage)}"}
        yield family, {name: rows[rows["stage"] == stage] for name, rows in parts.items()}
    yield {"scope": by, "dataset": ", ".join(parts), "stage": "all"}, parts


def _check(heads: pd.DataFrame, columns: Sequence[str]) -> None:
    missing = [c for c in columns if c not in heads]
    if missing:
        raise ValueError(f"the heads table has no column {', '.join(missing)}; it has {', '.join(map(str, heads.columns))}")
    if "label" in heads and heads.duplicated([c for c in ("dataset", "label") if c in heads]).any():
        raise ValueError("the heads table has a head twice; tables of several data sets need a `dataset` column that tells them apart")


def _datasets(heads: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each data set's rows, in the order of appearance; the name is empty where the table does not say."""
    if "dataset" not in heads:
        yield "", heads
        return
    for name in heads["dataset"].unique():
        yield str(name), heads[heads["dataset"] == name]


def _group_name(rows: pd.DataFrame, by: str) -> str:
    stage = f"S{int(rows['stage'].iloc[0])}"
    return stage if by == "stage" else f"{stage}B{int(rows['block'].iloc[0])}"


def _values(groups: dict[str, pd.DataFrame], measure: str) -> Groups:
    arrays = {name: rows[measure].to_numpy(float) for name, rows in groups.items()}
    return {name: values[np.isfinite(values)] for name, values in arrays.items()}


def _constant(values: np.ndarray) -> bool:
    return bool(np.ptp(values) <= NOISE * np.abs(values).max())


def _count(n: int) -> str:
    return f"{n} value" if n == 1 else f"{n} values"


def _thin(groups: Groups) -> str:
    """Which groups are too small to have a variance."""
    return "; ".join(f"{name} has {_count(len(values))}" for name, values in groups.items() if len(values) < 2)


def _outcome(test: str, n: int, statistic=np.nan, df_between=np.nan, df_within=np.nan, p=np.nan, effect=np.nan, note: str = "") -> Row:
    return {"test": test, "statistic": statistic, "df_between": df_between, "df_within": df_within, "p": p, "effect": effect,
            "stars": stars(p), "n": n, "note": note}  # fmt: skip


def _anova(groups: Groups) -> Row:
    samples, n = list(groups.values()), sum(map(len, groups.values()))
    if note := _thin(groups) or ("the values of every group are equal" if all(map(_constant, samples)) else ""):
        return _outcome("anova", n, note=note)
    between, within = len(samples) - 1, n - len(samples)
    f = max(0.0, stats.f_oneway(*samples).statistic)  # rounding can put it just below zero where the means are equal, and p is NaN then
    return _outcome("anova", n, f, between, within, stats.f.sf(f, between, within), f * between / (f * between + within))


def _kruskal(groups: Groups) -> Row:
    samples, n = list(groups.values()), sum(map(len, groups.values()))
    if note := _thin(groups) or ("all values are equal" if _constant(np.concatenate(samples)) else ""):
        return _outcome("kruskal", n, note=note)
    h, p = stats.kruskal(*samples)
    return _outcome("kruskal", n, h, len(samples) - 1, np.nan, p, h / (n - 1))


def _paired(groups: dict[str, pd.DataFrame], measure: str) -> Row:
    """Friedman or Wilcoxon over the heads that have a value in every data set."""
    columns = {name: rows.set_index("label")[measure].astype(float) for name, rows in groups.items()}
    table = pd.DataFrame(columns).replace([np.inf, -np.inf], np.nan).dropna().to_numpy()
    n, k = table.shape
    test = "wilcoxon" if k == 2 else "friedman"
    if n < 2:
        return _outcome(test, n, note=f"{n} heads have a value in every data set")
    if (np.ptp(table, axis=1) == 0).all():
        return _outcome(test, n, note="no head differs between the data sets")
    if k > 2:
        chi2, p = stats.friedmanchisquare(*table.T)
        return _outcome(test, n, chi2, k - 1, np.nan, p, chi2 / (n * (k - 1)))
    change = table[:, 1] - table[:, 0]
    w, p = stats.wilcoxon(change)
    moved = change[change != 0]
    ranks = stats.rankdata(np.abs(moved))
    return _outcome(test, n, w, p=p, effect=float(ranks @ np.sign(moved) / ranks.sum()))


@lru_cache(maxsize=256)
def _tukey_quantile(groups: int, df: int) -> float:
    return float(stats.studentized_range.ppf(0.95, groups, df))


def _pairs(groups: Groups) -> list[Row]:
    """One row per pair of groups; those with fewer than two values take no part in the pooled variance."""
    usable = {name: values for name, values in groups.items() if len(values) > 1}
    df = sum(map(len, usable.values())) - len(usable)
    flat = all(map(_constant, usable.values()))
    pooled = np.nan if flat else sum(np.var(v) * len(v) for v in usable.values()) / df
    rows: list[Row] = []
    for a, b in combinations(groups, 2):
        x, y = groups[a], groups[b]
        row: Row = {"a": a, "b": b, "n_a": len(x), "n_b": len(y), "note": _thin({a: x, b: y})}
        if len(x) and len(y):
            row["difference"] = y.mean() - x.mean()
        if not row["note"]:
            row |= _student(x, y)
            width = np.sqrt(pooled / 2 * (1 / len(x) + 1 / len(y)))
            if not flat:
                q, reach = abs(row["difference"]) / width, _tukey_quantile(len(usable), df) * width
                row["tukey_p"] = float(np.clip(stats.studentized_range.sf(q, len(usable), df), 0, 1))
                row["tukey_low"], row["tukey_high"] = row["difference"] - reach, row["difference"] + reach
        rows.append(row)
    tested = sum(np.isfinite(row.get("t_p", np.nan)) for row in rows)
    for row in rows:
        row["bonferroni_p"] = min(1.0, row.get("t_p", np.nan) * tested) if tested else np.nan
    return rows


def _student(x: np.ndarray, y: np.ndarray) -> Row:
    if _constant(x) and _constant(y):
        return {"note": "the values of both groups are equal, so t and d have no scale"}
    df = len(x) + len(y) - 2
    pooled = np.sqrt((np.var(x) * len(x) + np.var(y) * len(y)) / df)
    d = float((y.mean() - x.mean()) / pooled)
    t = d / np.sqrt(1 / len(x) + 1 / len(y))
    low, high = cohens_d_interval(d, len(x), len(y))
    return {"t": t, "t_p": 2 * stats.t.sf(abs(t), df), "cohens_d": d, "d_low": low, "d_high": high}


def _frame(rows: list[Row], columns: list[str]) -> pd.DataFrame:
    """The rows under the table's own columns and types, also when there are none."""
    types = {c: str if c in WORDS else int if c in COUNTS else float for c in columns}
    return pd.DataFrame(rows, columns=columns).astype(types)
