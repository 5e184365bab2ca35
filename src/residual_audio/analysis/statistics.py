"""Do the heads' measures differ between stages, blocks or data sets, by how much, and do they rise with depth?

Every function takes the tidy ``heads`` table (one row per head; several data sets lie below each other with a ``dataset`` column).
Values that are not finite are left out and ``n`` counts what was used. A test that is not defined has NaN and a ``note`` that says why.
Heads of one block share their input and are not independent samples. ANOVA, Kruskal–Wallis and the tests of pairs take them as such, as
the papers do: read their p as a description, effects first. ``p_blocks`` and the p of trends permute whole blocks instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from .errors import AnalysisError
from .group_tests import Groups, Row, anova, constant, counted, kruskal, paired, pairs, stars
from .permutation import Trend, block_spread, block_trend

NEEDED = {"stage": ["stage"], "depth": ["stage", "block", "depth"], "dataset": ["dataset", "stage", "label"]}  # by what is grouped
CAVEAT = "heads of one block are not independent samples"  # stands wherever a star or a p over heads is printed

STATISTICS = ["scope", "dataset", "stage", "measure", "test", "statistic", "df_between", "df_within", "p", "p_blocks", "effect",
              "stars", "n", "note"]  # fmt: skip
PAIRWISE = ["scope", "dataset", "stage", "measure", "a", "b", "n_a", "n_b", "difference", "tukey_p", "tukey_low", "tukey_high",
            "t", "t_p", "bonferroni_p", "cohens_d", "d_low", "d_high", "note"]  # fmt: skip
TREND = ["dataset", "measure", "spearman", "p", "stars", "n", "blocks", "arrangements", "note"]
WORDS = {"scope", "dataset", "stage", "measure", "test", "stars", "note", "a", "b"}
COUNTS = {"n", "n_a", "n_b", "blocks", "arrangements"}


def stage_tests(heads: pd.DataFrame, measures: Sequence[str], by: str = "stage") -> pd.DataFrame:
    """One-way ANOVA and Kruskal–Wallis between the stages (blocks: ``by="depth"``, data sets: ``by="dataset"``).

    Effects: η² = SS_between / SS_total and ε² = H / (n − 1). A model of one stage has nothing to compare: no rows.
    ``p_blocks``: between stages, with whole blocks dealt out to the stages anew (:func:`.permutation.block_spread`).
    """
    rows = []
    for family, groups in _families(heads, measures, by):
        for measure in measures:
            values = _values(groups, measure)
            over_blocks = _over_blocks(groups, measure) if by == "stage" else {}
            rows += [{**family, "measure": measure, **test(values), **over_blocks.get(test, {})} for test in (anova, kruskal)]
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
            outcomes = [anova(values), kruskal(values), paired(groups, measure)]
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
            rows += [{**family, "measure": measure, **pair} for pair in pairs(_values(groups, measure))]
    return _frame(rows, PAIRWISE)


def trend(heads: pd.DataFrame, measures: Sequence[str]) -> pd.DataFrame:
    """Spearman's rank correlation of each measure with depth (the block, counted through the network), per data set.

    p permutes the labels of the ``blocks``: exact where their ``arrangements`` can be counted (:func:`.permutation.block_trend`).
    """
    _check(heads, ["depth", *measures])
    rows = []
    for dataset, part in _datasets(heads):
        for measure in measures:
            known = part[np.isfinite(part[measure].astype(float))]
            values, depth = known[measure].to_numpy(float), known["depth"].to_numpy(float)
            note, slope = "", Trend(np.nan, np.nan, len(np.unique(depth)), 0)
            if len(values) < 3:
                note = f"{counted(len(values))} in all; a rank correlation needs three"
            elif constant(values) or constant(depth):
                note = "all values are equal" if constant(values) else "all heads have the same depth"
            else:
                slope = block_trend(values, depth)
            row: Row = {"dataset": dataset, "measure": measure, "spearman": slope.value, "p": slope.p, "stars": stars(slope.p)}
            rows.append(row | {"n": len(values), "blocks": slope.blocks, "arrangements": slope.arrangements, "note": note})
    return _frame(rows, TREND)


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


def _over_blocks(groups: dict[str, pd.DataFrame], measure: str) -> dict[Callable[[Groups], Row], Row]:
    """``p_blocks`` of both tests; nothing where the heads do not say which block they are of, or where a test is not defined."""
    heads = pd.concat(groups.values())
    heads = heads[np.isfinite(heads[measure].astype(float))]
    values = heads[measure].to_numpy(float)
    if "depth" not in heads or not len(values) or constant(values):
        return {}
    place = heads["depth"].to_numpy(), heads["stage"].to_numpy()
    return {anova: {"p_blocks": block_spread(values, *place)}, kruskal: {"p_blocks": block_spread(stats.rankdata(values), *place)}}


def _frame(rows: list[Row], columns: list[str]) -> pd.DataFrame:
    """The rows under the table's own columns and types, also when there are none."""
    types = {c: str if c in WORDS else int if c in COUNTS else float for c in columns}
    return pd.DataFrame(rows, columns=columns).astype(types)
