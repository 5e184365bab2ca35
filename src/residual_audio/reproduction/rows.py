"""Rows of published tables, from result tables alone: where each figure stands, how it was measured, and what it is.

A row's ``protocol`` says how: ``as they did`` where every choice is theirs, ``close to theirs`` where some are not (the target lists them),
``our defaults``, or ``both`` where the two do not differ.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

AS_PUBLISHED, CLOSE, OURS, BOTH = "as they did", "close to theirs", "our defaults", "both"
PROTOCOLS = (AS_PUBLISHED, OURS)
Tables = Mapping[str, pd.DataFrame]
Row = dict[str, Any]


def ways(measure: str, columns: Collection[str]) -> list[tuple[str, str]]:
    """(protocol, column): the appendix names scikit-dimension's TwoNN, a fit, where the text prints the maximum-likelihood formula."""
    fitted = {"twonn": "twonn_fit", "l_n": "l_n_fit"}.get(measure, "")
    return [(AS_PUBLISHED, fitted), (OURS, measure)] if fitted in columns else [(BOTH, measure)]


def mean_rows(groups: pd.DataFrame, dataset: str, level: str, index: str, measures: Sequence[str]) -> list[Row]:
    """Means over the heads of a stage or block, with their spread; L/N is a ratio of means and has none."""
    groups = groups.assign(l_n_fit=groups.pca_99 / groups.twonn_fit) if "twonn_fit" in groups else groups
    return [
        {"dataset": dataset, "level": level, "index": str(int(row[index])), "measure": measure, "protocol": protocol,
         "ours": row[column], "std": np.nan if measure == "l_n" else row[f"{column}_std"]}
        for measure in measures for protocol, column in ways(measure, set(groups)) for _, row in groups.iterrows()
    ]  # fmt: skip


def anova_rows(tables: Tables, dataset: str, measures: Sequence[str]) -> list[Row]:
    tests = tables["statistics"]
    f = tests[tests.test == "anova"].set_index("measure").statistic
    return [
        {"dataset": dataset, "level": "test", "index": "anova", "measure": measure, "protocol": protocol, "ours": f[column]}
        for measure in measures for protocol, column in ways(measure, set(f.index)) if column in f
    ]  # fmt: skip


def pair_rows(tables: Tables, dataset: str) -> list[Row]:
    """Differences of PCA99 between stages, and Cohen's d (positive where the later stage is higher)."""
    pairs = tables["pairwise"][tables["pairwise"].measure == "pca_99"]
    return [
        {"dataset": dataset, "level": "pair", "index": f"{row.a}-{row.b}", "measure": f"pca_99_{what}", "protocol": BOTH, "ours": row[what]}
        for _, row in pairs.iterrows() for what in ("difference", "cohens_d")
    ]  # fmt: skip


def whole(dataset: str, measure: str, ours: float, protocol: str = BOTH) -> Row:
    """A figure of the model as a whole."""
    return {"dataset": dataset, "level": "model", "index": "all", "measure": measure, "protocol": protocol, "ours": ours}


def entropy_rows(heads: pd.DataFrame, dataset: str) -> list[Row]:
    return [whole(dataset, "entropy_pca_99_spearman", float(stats.spearmanr(heads.entropy, heads.pca_99, nan_policy="omit").statistic))]


def similarity_rows(tables: Tables, dataset: str) -> list[Row]:
    similarity = tables["similarity_summary"].set_index("kind").loc["spectra"]
    return [whole(dataset, f"similarity_{what}", float(similarity[what])) for what in ("within", "between", "ratio")]


def method_rows(cells: pd.DataFrame, dataset: str, protocol: str, names: Mapping[str, str]) -> list[Row]:
    """Accuracy in percent with its spread over folds (divided by n, as published) and the trained numbers, by the published name."""
    rows = []
    for method, index in names.items():
        own_rows = cells[cells.method == method]
        place = {"dataset": dataset, "level": "method", "index": index, "protocol": protocol}
        by_fold = 100 * own_rows.groupby("fold").accuracy.mean()
        rows.append({**place, "measure": "accuracy", "ours": by_fold.mean(), "std": by_fold.std(ddof=0)})
        rows.append({**place, "measure": "trained", "ours": float(own_rows.trained.max())})
    return rows


def gain_row(cells: pd.DataFrame, place: Row) -> Row:
    """Points of accuracy above the model as it is, mean over folds, and their spread."""
    by_fold = {method: 100 * own.groupby("fold").accuracy.mean() for method, own in cells.groupby("method")}
    gain = by_fold["residual"] - by_fold["plain"]
    return {**place, "measure": "accuracy_gain", "ours": gain.mean(), "std": gain.std(ddof=0)}


def fold_rows(cells: pd.DataFrame, method: str, index: str, dataset: str, protocol: str) -> list[Row]:
    """The median over folds, the least and the most, their standard deviation, and the accuracy of every fold."""
    by_fold = 100 * cells[cells.method == method].groupby("fold").accuracy.mean()
    place = {"dataset": dataset, "level": "method", "index": index, "protocol": protocol}
    figures = {"accuracy_median": by_fold.median(), "accuracy_least": by_fold.min(), "accuracy_most": by_fold.max(),
               "accuracy_std": by_fold.std(ddof=0), **{f"accuracy_fold_{fold}": value for fold, value in by_fold.items()}}  # fmt: skip
    return [{**place, "measure": measure, "ours": float(value)} for measure, value in figures.items()]
