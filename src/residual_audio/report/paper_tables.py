"""The papers' tables 1–7, in their shape, from the result tables of one or several runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from ..analysis import AnalysisError, between_datasets, same_model
from ..analysis.battery import Analysis
from ..analysis.between import varied_over_datasets
from ..analysis.keys import BOTH, KEYS, REGIMES, file_prefix, select, with_keys
from ..analysis.measures import MEASURES, ONE
from ..analysis.statistics import CAVEAT
from ..results import write_table
from ..rounding import MISSING, fixed
from .tables import write_paper_table

Results = Mapping[str, Mapping[str, pd.DataFrame]]
# The columns of the published tables, in their order; measures that are registered later follow.
PUBLISHED = ("pca_90", "pca_99", "twonn", "participation_ratio", "effective_rank", "evr_1")
FEWER = ("pca_99", "twonn", "participation_ratio", "evr_1")
LINEAR_OVER_NONLINEAR = "L = PCA99, N = TwoNN, L/N = ratio of the means"
# Clips of one recording are each other's neighbours and pull TwoNN down: where a run has such clips, both figures are shown.
SINGLE = f"twonn_{ONE}"
FOOTNOTE = "; ¹ one clip per recording"


def paper_tables(
    results: Results, model: str = "", about: Mapping[str, str] | None = None, across: str = "data sets"
) -> dict[str, tuple[str, pd.DataFrame]]:
    """``{"table_1": (title, table), …}`` from ``{data set: {name: table}}``; the first data set is the one that the report is about.

    1 stages of the first data set · 2 last stage, all data sets · 3 blocks of the first · 4, 5 stages of the second and third
    (then ``table_5_2``, ``table_5_3``…, so that 6 and 7 keep the papers' numbers) · 6 ANOVA and 7 pairs of the first,
    where it has such tests: between stages, or between blocks in a model of one stage.
    Runs of different models go side by side likewise: ``about`` says in words what each of them is, ``across`` what they differ in.
    """
    if not results:
        raise ValueError("there is no data set to make tables of; analyse a run first")
    for name, tables in results.items():
        if missing := [table for table in ("heads", "blocks", "stages") if table not in tables]:
            raise ValueError(f"the results of {name} lack the table {', '.join(missing)}; run the analysis again")
    first, *further = results
    known = about or {name: f"{model} on {name}" if model else name for name in results}
    texts = {
        name: f"{known[name]} (n = {len(t['heads'])} heads, {_clips(t['heads'])} clips{FOOTNOTE if SINGLE in t['stages'] else ''})"
        for name, t in results.items()
    }
    stages = results[first]["stages"]
    made = {
        "table_1": (f"Intrinsic dimension by stage, {texts[first]}; mean ± std over heads", _stages(stages, PUBLISHED)),
        "table_2": (f"Last stage across {across}{_by(model)}; mean ± std over heads; {_sizes(results)}", _across(results)),
        "table_3": (f"Intrinsic dimension by block, {texts[first]}; {LINEAR_OVER_NONLINEAR}", _blocks(results[first]["blocks"])),
    }
    for i, name in enumerate(further):
        table = _stages(results[name]["stages"], FEWER)
        made[f"table_{4 + i}" if i < 2 else f"table_5_{i}"] = (
            f"Intrinsic dimension by stage, {texts[name]}; mean ± std over heads",
            table,
        )
    tests, pairs = (_inside(results[first], name, first) for name in ("statistics", "pairwise"))
    if len(tests) and len(anova := tests[tests["test"] == "anova"]):
        made["table_6"] = (f"One-way ANOVA between {_groups(anova)}, {texts[first]}; {CAVEAT}", _anova(anova))
    if len(pairs) and len(linear := pairs[pairs["measure"] == "pca_99"]):
        tested = int(linear["bonferroni_p"].notna().sum())
        title = f"PCA99 between pairs of {_groups(linear)}, {texts[first]}; p after Bonferroni for {tested} comparisons; {CAVEAT}"
        made["table_7"] = (title, _pairs(linear))
    return made


def run_names(analyses: list[Analysis], places: list[str]) -> list[str]:
    """What tells runs apart: their data, their models where those differ, or both; their ``places`` where nothing else does."""
    models, data = [str(a.info["model"]["name"]) for a in analyses], [str(a.info["dataset"]["name"]) for a in analyses]
    if same_model(analyses):
        names = data
    elif len(set(data)) == 1 < len(set(models)):
        names = models
    else:
        names = [f"{m} on {d}" for m, d in zip(models, data, strict=True)]
    if len(set(names)) < len(names):
        names = [f"{name} ({place})" for name, place in zip(names, places, strict=True)]
    if len(set(names)) < len(names):
        raise AnalysisError("a run is named twice")
    return names


def write_paper_tables(results: Mapping[str, Analysis], folder: Path) -> dict[str, pd.DataFrame]:
    """The papers' tables into ``folder/paper`` (CSV, Markdown, LaTeX) and tests between runs; returns table 2 of each regime.

    Runs of one model on several data sets are also tested against each other, head by head (``folder/dataset_statistics``), and have their
    coefficients of variation across data sets in ``folder/dataset_variation``. Heads of
    different models are not paired: those runs only stand side by side.
    """
    one_model = same_model(results.values())
    analyses = list(results.values())
    about = {name: f"{a.info['model']['name']} on {a.info['dataset']['name']}" for name, a in results.items()}
    model = str(analyses[0].info["model"]["name"]) if one_model else ""
    same_data = len({a.info["dataset"]["name"] for a in analyses}) == 1
    across = "data sets" if one_model else "models" if same_data else "models and data sets"
    second: dict[str, pd.DataFrame] = {}
    for regime in REGIMES:
        chosen = {name: select(a.tables, regime) for name, a in results.items()}
        if not all("heads" in tables for tables in chosen.values()):
            continue
        for title, (caption, table) in paper_tables(chosen, model, about, across).items() if regime in BOTH else ():
            write_paper_table(table, folder / "paper", file_prefix(regime, "clip") + title, caption)
            if title == "table_2":
                second[regime] = table
        if len(results) > 1 and one_model:
            tests = with_keys(between_datasets(results, regime), regime, "clip")
            write_table(tests, folder, "dataset_statistics", keys=KEYS)
            write_table(with_keys(varied_over_datasets(results, regime), regime, "clip"), folder, "dataset_variation", keys=KEYS)
    return second


def _columns(layout: tuple[str, ...], table: pd.DataFrame) -> list[str]:
    """A published layout, TwoNN also with one clip per recording, then the measures registered for papers that are not part of any."""
    named = [name for m in layout for name in ((m, SINGLE) if m == "twonn" and SINGLE in table else (m,))]
    return [*named, *(m.name for m in MEASURES.values() if m.paper and m.name not in PUBLISHED and m.name in table)]


def _inside(tables: Mapping[str, pd.DataFrame], name: str, dataset: str) -> pd.DataFrame:
    """The tests inside one data set; a table that holds several is searched for the one asked for."""
    table = tables.get(name, pd.DataFrame(columns=["scope", "dataset"]))
    table = table[table["scope"] != "dataset"]
    return table[table["dataset"] == dataset] if table["dataset"].nunique() > 1 else table


def _by(model: str) -> str:
    return f", {model}" if model else ""


def _clips(heads: pd.DataFrame) -> str:
    low, high = int(heads["n"].min()), int(heads["n"].max())
    return f"{high:,}" if low == high else f"{low:,}–{high:,}"


def _sizes(results: Results) -> str:
    return "n = " + ", ".join(
        f"{int(t['stages'].sort_values('stage')['heads'].iloc[-1])} heads, {_clips(t['heads'])} clips ({name})"
        for name, t in results.items()
    )


def _groups(tests: pd.DataFrame) -> str:
    return "blocks" if (tests["scope"] == "depth").all() else "stages"


def _spread(row: pd.Series, measure: str) -> str:
    value, spread = row.get(measure, float("nan")), row.get(f"{measure}_std", float("nan"))
    decimals = 3 if measure == "evr_1" else 1
    return f"{fixed(value, decimals)} ± {fixed(spread, decimals)}" if pd.notna(value) else MISSING


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else fixed(p, 3)


def _stages(stages: pd.DataFrame, layout: tuple[str, ...]) -> pd.DataFrame:
    shown = [MEASURES[name] for name in _columns(layout, stages)]
    rows = [{"Stage": f"S{int(row['stage'])}", **{m.short: _spread(row, m.name) for m in shown}} for _, row in stages.iterrows()]
    return pd.DataFrame(rows, columns=["Stage", *(m.short for m in shown)])


def _across(results: Results) -> pd.DataFrame:
    last = {name: tables["stages"].sort_values("stage").iloc[-1] for name, tables in results.items()}
    shown = _columns(FEWER[:3], pd.concat([tables["stages"] for tables in results.values()]))
    rows = [{"Measure": MEASURES[m].short, **{name: _spread(row, m) for name, row in last.items()}} for m in shown]
    place = shown.index("participation_ratio") + 1
    rows.insert(place, {"Measure": MEASURES["l_n"].short, **{name: fixed(row["l_n"], 2) for name, row in last.items()}})
    return pd.DataFrame(rows)


def _blocks(blocks: pd.DataFrame) -> pd.DataFrame:
    rows = [
        {"Block": int(row["depth"]), "Stage": f"S{int(row['stage'])}", "Heads": int(row["heads"]), "L": fixed(row["pca_99"], 2),
         "N": fixed(row["twonn"], 2), "L/N": fixed(row["l_n"], 2), **_single(row), "EVR1": fixed(row["evr_1"], 3)}
        for _, row in blocks.sort_values("depth").iterrows()
    ]  # fmt: skip
    return pd.DataFrame(rows)


def _single(block: pd.Series) -> dict[str, str]:
    """N and L/N with one clip per recording, where there are such figures."""
    return {"N ¹": fixed(block[SINGLE], 2), "L/N ¹": fixed(block[f"l_n_{ONE}"], 2)} if SINGLE in block else {}


def _anova(tests: pd.DataFrame) -> pd.DataFrame:
    """In the order of table 1; measures that it does not name are left to the `statistics` table."""
    rows = []
    for measure in [*PUBLISHED, *(m.name for m in MEASURES.values() if m.paper and m.name not in PUBLISHED)]:
        for _, row in tests[tests["measure"] == measure].iterrows():
            numbers = {"F": fixed(row["statistic"], 2), "p": _p(row["p"]), "Significance": row["stars"], "η²": fixed(row["effect"], 3)}
            rows.append({"Measure": MEASURES[measure].short, **numbers})
    return pd.DataFrame(rows, columns=["Measure", "F", "p", "Significance", "η²"])


def _pairs(pairs: pd.DataFrame) -> pd.DataFrame:
    rows = [
        {"Comparison": f"{row['a']} vs {row['b']}", "Δ PCA99": fixed(row["difference"], 2), "Cohen's d": fixed(row["cohens_d"], 2),
         "95 % of d": f"{fixed(row['d_low'], 2)} to {fixed(row['d_high'], 2)}" if pd.notna(row["d_low"]) else MISSING,
         "p": _p(row["bonferroni_p"])}
        for _, row in pairs.iterrows()
    ]  # fmt: skip
    return pd.DataFrame(rows)
