"""``residual-audio analyze``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..options import words
from .checks import check_run, writable
from .late_help import helped, measures_help

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from ..analysis import Analysis


@helped(more=measures_help)
def analyze(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Finished runs of `residual-audio extract`, one per dataset.")],
    of: Annotated[
        str,
        typer.Option(
            help="What to analyse, comma-separated: heads; mlps, writes (what MLPs and attention write), blocks, stages (streams, and the "
            "embedding), joint (heads' shares of the embedding), attention (weights)."
        ),
    ] = "heads",
    regime: Annotated[
        Literal["pre", "post", "both", "uncentred"],
        typer.Option(
            help="Of heads: pre (head outputs), post (what they write into the stream), both, or uncentred (pre, spectra about zero: where "
            "the mean is large the first axis is little but the mean)."
        ),
    ] = "pre",
    level: Annotated[
        Literal["clip", "token"], typer.Option(help="clip (pooled outputs, every measure) or token (from streamed moments, spectra only).")
    ] = "clip",
    k: Annotated[int, typer.Option("--k", min=2, help="Neighbours of the MLE estimator; published reports used 20 and 5.")] = 20,
    points: Annotated[
        int | None, typer.Option(min=3, help="Use at most so many clips, drawn with --seed; distances cost n². Default: all.")
    ] = None,
    similarity: Annotated[
        str,
        typer.Option(
            help="How heads are compared, comma-separated: spectra, subspaces, paired (as in ResiDual), cka, direct (needs direct shares); "
            "other units by spectra and cka only."
        ),
    ] = "spectra,subspaces",
    clusters: Annotated[int | None, typer.Option(min=2, help="Ward clusters; default: by the best silhouette.")] = None,
    layout: Annotated[
        Literal["auto", "umap", "pca"], typer.Option("--map", help="Map of the fingerprints: pca, umap (extra `umap`) or auto.")
    ] = "pca",
    draws: Annotated[
        int, typer.Option(min=0, help="Draws of one clip per recording (the run's groups) for the columns `_one`; 0: none.")
    ] = 10,
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Draw the figures (PDF and PNG).")] = True,
    out: Annotated[
        Path | None, typer.Option(help="Where tables/ and figures/ go; default: into the run. With several runs: one folder each.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of --points, --draws, resamples and the map.")] = 0,
) -> None:
    """Dimension, spectra, specialisation, discriminability and statistics of every head, from a run's files; no model is needed.

    Tables (Parquet and CSV, one row per head, block, stage, component, …) go to `RUN/tables`; their columns `regime` and `level` say what
    a row is about, and rows of other regimes and levels stay. The papers' tables 1–7 (CSV, Markdown, LaTeX) go to `RUN/tables/paper`,
    figures to `RUN/figures`. Several runs are analysed one by one; those of one model are then tested against each other, head by head.
    If `RUN/tables` holds an ablation (`residual-audio ablate … --out RUN`), its figures are drawn and the table `importance` is written.

    ```
    residual-audio extract tiny synthetic --out runs/synthetic
    residual-audio analyze runs/synthetic --regime both
    residual-audio analyze runs/notes --of heads,mlps,writes,blocks,stages
    residual-audio analyze runs/esc50 runs/tinysol runs/vocalsound --k 5
    ```
    """
    for address in runs:
        check_run(address)
    writable(out)
    from ..analysis import analyze as run_analysis
    from ..analysis import same_model
    from ..extraction import Run, StoreError
    from ..report.paper_tables import run_names, write_paper_tables
    from .screen import console

    opened = [Run.open(address) for address in runs]
    if len(set(runs)) < len(runs):
        raise StoreError("a run is named twice")
    if out is not None and len({Path(address).name for address in runs}) < len(runs):
        raise StoreError("with --out, runs need folders of different names: each gets one of its own there")
    asked, kinds = words(similarity), words(of)
    folders: list[Path] = []
    analyses: list[Analysis] = []
    for run, address in zip(opened, runs, strict=True):
        here = run.store.local if out is None else out if len(runs) == 1 else out / Path(address).name
        if here is None:
            raise StoreError(f"{address} is remote; say where tables and figures go with --out")
        analysis = run_analysis(
            run,
            regime,
            level,
            of=kinds,
            k=k,
            points=points,
            similarity=asked,
            clusters=clusters,
            layout=layout,
            draws=draws,
            seed=seed,
        )
        analysis.tables.update(worth(here / "tables", analysis, seed))
        analyses.append(analysis)
        folders.append(analysis.write(here))
    results = dict(zip(run_names(analyses, runs), analyses, strict=True))
    for (name, analysis), folder in zip(results.items(), folders, strict=True):
        count = f"{len(analysis.tables)} tables" + (f" and {draw_figures(folder, analysis)} figures" if figures else "")
        console.print(f"{name}: {analysis.info['clips']} clips, {count} in {folder}", soft_wrap=True)
    beside = write_paper_tables(results, (folders[0] if out is None else out) / "tables")
    for name, analysis in results.items():
        for table in first_tables(name, analysis):
            console.print(table)
        for line in remarks(analysis):
            console.print(line, soft_wrap=True)
    if len(results) > 1:
        for one, table in beside.items():
            console.print(side_by_side(table, one))
    if not same_model(analyses):
        console.print("nothing is paired or tested between these runs: their models differ", soft_wrap=True)


def ablations_of(folder: Path) -> dict[str, pd.DataFrame]:
    import pandas as pd

    return {p.stem: pd.read_parquet(p) for p in sorted(folder.glob("ablation_*.parquet"))}


def worth(folder: Path, analysis: Analysis, seed: int) -> dict[str, pd.DataFrame]:
    """The table ``importance``, where ablations of heads or blocks lie beside the tables."""
    import pandas as pd

    from ..analysis import importance, select
    from ..analysis.keys import BOTH, views, with_keys

    ablations = ablations_of(folder)
    seen = [view for view in views(analysis.tables) if view[0] in BOTH]
    parts = [with_keys(importance({**select(analysis.tables, *view), **ablations}, seed), *view) for view in seen]
    known = [part for part in parts if len(part)]
    return {"importance": pd.concat(known, ignore_index=True)} if known else {}


def draw_figures(folder: Path, analysis: Analysis) -> int:
    """Every figure that the tables, and ablations that lie beside them, allow; says how many."""
    from .figures import draw

    return len(draw({**ablations_of(folder / "tables"), **analysis.tables}, folder / "figures", analysis.info)) // 2


def first_tables(name: str, analysis: Analysis) -> list[Table]:
    """What the screen shows of each regime: one line per stage, or per block where there is one stage."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Column, Table

    from ..analysis import MEASURES
    from ..analysis.keys import REGIMES, UNITS, plural, select, views
    from ..analysis.measures import CONTROL, OneMeasure

    def shown(title: str, rows: pd.DataFrame, columns: dict[str, str]) -> Table:
        heads = [Column(short, justify="right", no_wrap=True) for short in ("units" if regime in UNITS else "heads", *columns.values())]
        screen = Table("", *heads, title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        for _, row in rows.iterrows():
            stage = int(row["stage"])
            place = "embedding" if stage == behind else f"S{stage}" + (f"B{int(row['block'])}" if "block" in row else "")
            screen.add_row(place, str(int(row["heads"])), *(number(row[column]) for column in columns))
        return screen

    screens = []
    for regime, level in views(analysis.tables):
        tables = select(analysis.tables, regime, level)
        rows = tables["blocks"] if len(tables["stages"]) == 1 else tables["stages"]
        behind = int(rows["stage"].max()) if regime == "stages" else None
        measures = [m for m in MEASURES.values() if m.shown == "everywhere" and m.name in rows]
        title = f"{name}, {REGIMES[regime]}{', tokens' if level == 'token' else ''}: means over {plural(UNITS.get(regime, 'head'))}"
        screens.append(shown(title, rows, {m.name: m.short for m in measures if not isinstance(m, OneMeasure)}))
        versions: dict[str, str] = {}
        for m in measures:
            if isinstance(m, OneMeasure) and m.base.of != "spectrum":
                base = m.base
                versions |= {base.name: base.short, m.name: "one", f"{base.name}_{CONTROL}": "control"}
        if versions:
            screens.append(shown("all clips, one clip per recording, and as many clips of all as a control", rows, versions))
    return screens


def remarks(analysis: Analysis) -> list[str]:
    """What was done about clips of one recording, and what flat data of this size would give."""
    info, lines = analysis.info, []
    if info["level"] == "clip":
        lines.append(info["one_per_group"])
    for flat in info["flat"]:
        estimates = f"TwoNN {number(flat['twonn'])}, MLE {number(flat['mle'])}, L/N {number(flat['l_n'])}"
        lines.append(f"for comparison, flat data of {flat['clips']} clips and {flat['d']} dimensions: {estimates}")
    return lines


def number(value: Any) -> str:
    return "–" if value != value else f"{value:.2f}"


def side_by_side(table: pd.DataFrame, regime: str) -> Table:
    """The last stage of every run, one column each."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from ..analysis.keys import REGIMES

    title = f"last stage of each run, {REGIMES[regime]}: mean ± std over heads"
    screen = Table(*table.columns, title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for row in table.to_numpy():
        screen.add_row(*row)
    return screen
