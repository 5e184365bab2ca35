"""The seeds' tables 1–7, in their shape, from the result tables of one or several data sets."""

from __future__ import annotations

import pandas as pd

from .tables import MISSING, fixed

Results = dict[str, dict[str, pd.DataFrame]]
NAMES = {"pca_90": "PCA90", "pca_99": "PCA99", "twonn": "TwoNN", "participation_ratio": "PR", "effective_rank": "EffRank", "evr_1": "EVR1"}
STAGE_MEASURES = ["pca_99", "twonn", "participation_ratio", "evr_1"]
LINEAR_OVER_NONLINEAR = "L = PCA99, N = TwoNN, L/N = ratio of the means"


def paper_tables(results: Results, model: str = "") -> dict[str, tuple[str, pd.DataFrame]]:
    """``{"table_1": (title, table), …}`` from ``{data set: {name: table}}``; the first data set is the one that the report is about.

    1 stages of the first data set · 2 last stage, all data sets · 3 blocks of the first · 4, 5 stages of the second and third
    (then ``table_5_2``, ``table_5_3``…, so that 6 and 7 keep the seeds' numbers) · 6 ANOVA and 7 pairs of the first,
    where it has such tests: between stages, or between blocks in a model of one stage.
    """
    if not results:
        raise ValueError("there is no data set to make tables of; analyse a run first")
    for dataset, tables in results.items():
        if missing := [name for name in ("heads", "blocks", "stages") if name not in tables]:
            raise ValueError(f"the results of {dataset} lack the table {', '.join(missing)}; run the analysis again")
    first, *further = results
    about = {dataset: _about(model, dataset, tables["heads"]) for dataset, tables in results.items()}
    made = {
        "table_1": (f"Intrinsic dimension by stage, {about[first]}; mean ± std over heads", _stages(results[first]["stages"], list(NAMES))),
        "table_2": (f"Last stage across data sets{_by(model)}; mean ± std over heads; {_sizes(results)}", _across(results)),
        "table_3": (f"Intrinsic dimension by block, {about[first]}; {LINEAR_OVER_NONLINEAR}", _blocks(results[first]["blocks"])),
    }
    for i, dataset in enumerate(further):
        table = _stages(results[dataset]["stages"], STAGE_MEASURES)
        made[f"table_{4 + i}" if i < 2 else f"table_5_{i}"] = (
            f"Intrinsic dimension by stage, {about[dataset]}; mean ± std over heads",
            table,
        )
    tests, pairs = (_inside(results[first], name, first) for name in ("statistics", "pairwise"))
    if len(tests) and len(anova := tests[tests["test"] == "anova"]):
        made["table_6"] = (f"One-way ANOVA between {_groups(anova)}, {about[first]}", _anova(anova))
    if len(pairs) and len(linear := pairs[pairs["measure"] == "pca_99"]):
        tested = int(linear["bonferroni_p"].notna().sum())
        title = f"PCA99 between pairs of {_groups(linear)}, {about[first]}; p after Bonferroni for {tested} comparisons"
        made["table_7"] = (title, _pairs(linear))
    return made


def _inside(tables: dict[str, pd.DataFrame], name: str, dataset: str) -> pd.DataFrame:
    """The tests inside one data set; a table that holds several is searched for the one asked for."""
    table = tables.get(name, pd.DataFrame(columns=["scope", "dataset"]))
    table = table[table["scope"] != "dataset"]
    return table[table["dataset"] == dataset] if table["dataset"].nunique() > 1 else table


def _by(model: str) -> str:
    return f", {model}" if model else ""


def _clips(heads: pd.DataFrame) -> str:
    low, high = int(heads["n"].min()), int(heads["n"].max())
    return f"{high:,}" if low == high else f"{low:,}–{high:,}"


def _about(model: str, dataset: str, heads: pd.DataFrame) -> str:
    return f"{model + ' on ' if model else ''}{dataset} (n = {len(heads)} heads, {_clips(heads)} clips)"


def _sizes(results: Results) -> str:
    return "n = " + ", ".join(
        f"{int(t['stages'].sort_values('stage')['heads'].iloc[-1])} heads, {_clips(t['heads'])} clips ({name})"
        for name, t in results.items()
    )


def _groups(tests: pd.DataFrame) -> str:
    return "blocks" if (tests["scope"] == "depth").all() else "stages"


def _spread(row: pd.Series, measure: str) -> str:
    decimals = 3 if measure == "evr_1" else 1
    return f"{fixed(row[measure], decimals)} ± {fixed(row[f'{measure}_std'], decimals)}" if pd.notna(row[measure]) else MISSING


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else fixed(p, 3)


def _stages(stages: pd.DataFrame, measures: list[str]) -> pd.DataFrame:
    rows = [{"Stage": f"S{int(row['stage'])}", **{NAMES[m]: _spread(row, m) for m in measures}} for _, row in stages.iterrows()]
    return pd.DataFrame(rows, columns=["Stage", *(NAMES[m] for m in measures)])


def _across(results: Results) -> pd.DataFrame:
    last = {dataset: tables["stages"].sort_values("stage").iloc[-1] for dataset, tables in results.items()}
    rows = [{"Measure": NAMES[m], **{d: _spread(row, m) for d, row in last.items()}} for m in STAGE_MEASURES[:3]]
    rows.append({"Measure": "L/N", **{dataset: fixed(row["l_n"], 2) for dataset, row in last.items()}})
    return pd.DataFrame(rows)


def _blocks(blocks: pd.DataFrame) -> pd.DataFrame:
    rows = [
        {"Block": int(row["depth"]), "Stage": f"S{int(row['stage'])}", "Heads": int(row["heads"]), "L": fixed(row["pca_99"], 2),
         "N": fixed(row["twonn"], 2), "L/N": fixed(row["l_n"], 2), "EVR1": fixed(row["evr_1"], 3)}
        for _, row in blocks.sort_values("depth").iterrows()
    ]  # fmt: skip
    return pd.DataFrame(rows)


def _anova(tests: pd.DataFrame) -> pd.DataFrame:
    """In the order of table 1; measures that it does not name are left to the `statistics` table."""
    rows = []
    for measure, name in NAMES.items():
        for _, row in tests[tests["measure"] == measure].iterrows():
            rows.append({"Measure": name, "F": fixed(row["statistic"], 2), "p": _p(row["p"]), "Significance": row["stars"],
                         "η²": fixed(row["effect"], 3)})  # fmt: skip
    return pd.DataFrame(rows, columns=["Measure", "F", "p", "Significance", "η²"])


def _pairs(pairs: pd.DataFrame) -> pd.DataFrame:
    rows = [
        {"Comparison": f"{row['a']} vs {row['b']}", "Δ PCA99": fixed(row["difference"], 2), "Cohen's d": fixed(row["cohens_d"], 2),
         "95 % of d": f"{fixed(row['d_low'], 2)} to {fixed(row['d_high'], 2)}" if pd.notna(row["d_low"]) else MISSING,
         "p": _p(row["bonferroni_p"])}
        for _, row in pairs.iterrows()
    ]  # fmt: skip
    return pd.DataFrame(rows)
