"""The tests between groups of heads, one row each: ANOVA, Kruskal–Wallis, paired tests, pairs of groups with effects and intervals."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy import optimize, stats

Groups = dict[str, np.ndarray]
Row = dict[str, Any]

NOISE = 1e-12  # values closer together than this, relative to their size, differ by rounding only
LARGE_T = 1000.0  # beyond it the noncentral t is its own limit to six digits, and its distribution function is no longer reliable


def stars(p: float) -> str:
    """``***`` below 0.001, ``**`` below 0.01, ``*`` below 0.05, ``ns`` above, nothing where there is no p."""
    if np.isnan(p):
        return ""
    return "***" if p < 0.001 else "**" if p < 0.01 else "*" if p < 0.05 else "ns"


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


def constant(values: np.ndarray) -> bool:
    return bool(np.ptp(values) <= NOISE * np.abs(values).max())


def counted(n: int) -> str:
    return f"{n} value" if n == 1 else f"{n} values"


def _thin(groups: Groups) -> str:
    """Which groups are too small to have a variance."""
    return "; ".join(f"{name} has {counted(len(values))}" for name, values in groups.items() if len(values) < 2)


def _outcome(test: str, n: int, statistic=np.nan, df_between=np.nan, df_within=np.nan, p=np.nan, effect=np.nan, note: str = "") -> Row:
    return {"test": test, "statistic": statistic, "df_between": df_between, "df_within": df_within, "p": p, "effect": effect,
            "stars": stars(p), "n": n, "note": note}  # fmt: skip


def anova(groups: Groups) -> Row:
    samples, n = list(groups.values()), sum(map(len, groups.values()))
    if note := _thin(groups) or ("the values of every group are equal" if all(map(constant, samples)) else ""):
        return _outcome("anova", n, note=note)
    between, within = len(samples) - 1, n - len(samples)
    f = max(0.0, stats.f_oneway(*samples).statistic)  # rounding can put it just below zero where the means are equal, and p is NaN then
    return _outcome("anova", n, f, between, within, stats.f.sf(f, between, within), f * between / (f * between + within))


def kruskal(groups: Groups) -> Row:
    samples, n = list(groups.values()), sum(map(len, groups.values()))
    if note := _thin(groups) or ("all values are equal" if constant(np.concatenate(samples)) else ""):
        return _outcome("kruskal", n, note=note)
    h, p = stats.kruskal(*samples)
    return _outcome("kruskal", n, h, len(samples) - 1, np.nan, p, h / (n - 1))


def paired(groups: dict[str, pd.DataFrame], measure: str) -> Row:
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


def pairs(groups: Groups) -> list[Row]:
    """One row per pair of groups; those with fewer than two values take no part in the pooled variance."""
    usable = {name: values for name, values in groups.items() if len(values) > 1}
    df = sum(map(len, usable.values())) - len(usable)
    flat = all(map(constant, usable.values()))
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
    if constant(x) and constant(y):
        return {"note": "the values of both groups are equal, so t and d have no scale"}
    df = len(x) + len(y) - 2
    pooled = np.sqrt((np.var(x) * len(x) + np.var(y) * len(y)) / df)
    d = float((y.mean() - x.mean()) / pooled)
    t = d / np.sqrt(1 / len(x) + 1 / len(y))
    low, high = cohens_d_interval(d, len(x), len(y))
    return {"t": t, "t_p": 2 * stats.t.sf(abs(t), df), "cohens_d": d, "d_low": low, "d_high": high}
