"""``residual-audio analyze``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from . import options as given

if TYPE_CHECKING:
    import pandas as pd

    from ..analysis import Analysis
    from ..extraction import Run


def register(app: typer.Typer) -> None:
    app.command("analyze")(analyze)


def analyze(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Finished runs of `residual-audio extract`, one a dataset.")],
    regime: Annotated[str, typer.Option(help="pre (head outputs), post (what they write into the stream) or both.")] = "pre",
    level: Annotated[
        str, typer.Option(help="clip (pooled outputs, every measure) or token (from streamed moments, spectra only).")
    ] = "clip",
    k: Annotated[int, typer.Option("--k", min=2, help="Neighbours of the MLE estimator; published reports used 20 and 5.")] = 20,
    points: Annotated[
        int | None, typer.Option(min=3, help="Use at most so many clips, drawn with --seed; distances cost n². Default: all.")
    ] = None,
    similarity: Annotated[
        str, typer.Option(help="How heads are compared, comma-separated: spectra, subspaces, cka, direct (needs direct shares).")
    ] = "spectra,subspaces",
    clusters: Annotated[int | None, typer.Option(min=2, help="Ward clusters; default: by the best silhouette.")] = None,
    layout: Annotated[
        Literal["auto", "umap", "pca"], typer.Option("--map", help="Map of the fingerprints: pca, umap (extra `umap`) or auto.")
    ] = "pca",
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Draw the figures (PDF and PNG).")] = True,
    out: Annotated[
        Path | None, typer.Option(help="Where tables/ and figures/ go; default: into the run. With several runs: one folder each.")
    ] = None,
    seed: given.Seed = 0,
) -> None:
    """Dimension, spectra, specialisation, discriminability and statistics of every head, from a run's files; no model is needed.

    Tables (Parquet and CSV, one row a head, block, stage, component, …) go to `RUN/tables`, the seeds' tables 1–7 (CSV, Markdown, LaTeX) to
    `RUN/tables/paper`, figures to `RUN/figures`. Several runs are analysed one by one and then compared with each other.
    If `RUN/tables` holds an ablation (`residual-audio ablate … --out RUN`), its figures are drawn too.

    ```
    residual-audio extract tiny synthetic --out runs/synthetic
    residual-audio analyze runs/synthetic --regime both
    residual-audio analyze runs/esc50 runs/tinysol runs/vocalsound --k 5
    ```
    """
    from ..analysis import analyze as run_analysis
    from ..extraction import Run, StoreError
    from .screen import console, progress

    opened = [Run.open(address) for address in runs]
    names = [run.info["dataset"]["name"] for run in opened]
    if len(set(names)) < len(names):
        names = [f"{name} ({address})" for name, address in zip(names, runs, strict=True)]
    if len(set(names)) < len(names):
        raise StoreError("a run is named twice")
    if out is not None and len({Path(address).name for address in runs}) < len(runs):
        raise StoreError("with --out, runs need folders of different names: each gets one of its own there")
    passes = 2 if regime == "both" else 1
    results: dict[str, Analysis] = {}
    folders: list[Path] = []
    for run, name, address in zip(opened, names, runs, strict=True):
        here = run.store.local if out is None else out if len(runs) == 1 else out / Path(address).name
        if here is None:
            raise StoreError(f"{address} is remote; say where tables and figures go with --out")
        heads = len(run.units.where("head"))
        with progress(name, passes * heads) as advance:
            results[name] = run_analysis(
                run, regime, level, k=k, points=points, similarity=[s.strip() for s in similarity.split(",") if s.strip()],
                clusters=clusters, layout=layout, seed=seed, advance=advance,
            )  # fmt: skip
        folders.append(here)
        count = write(results[name], run, name, here, figures)
        console.print(f"{name}: {results[name].info['clips']} clips, {count} in {here}", highlight=False, soft_wrap=True)
    home = folders[0] if out is None else out
    paper(results, home / "tables" / "paper", opened[0].info["model"]["name"])
    for table in first_tables(results):
        console.print(table)


def write(analysis: Analysis, run: Run, name: str, folder: Path, figures: bool) -> str:
    """One run's tables and figures; says how many."""
    from ..report.tables import write_table
    from .output import write_record

    for title, table in analysis.tables.items():
        write_table(table, folder / "tables", title)
    write_record(folder / "analysis.json", {"analysis": analysis.info, "run": {k: run.info[k] for k in ("model", "dataset", "settings")}})
    drawn = draw_figures(folder, analysis.tables, {**analysis.info, "dataset": name}) if figures else []
    return f"{len(analysis.tables)} tables" + (f" and {len(drawn) // 2} figures" if figures else "")


def draw_figures(folder: Path, tables: dict[str, pd.DataFrame], caption: dict) -> list[Path]:
    """Every figure that the tables, and ablations that lie beside them, allow; one set a regime and level."""
    import pandas as pd

    from ..analysis.battery import LEVELS, REGIMES, table_prefix
    from ..report.figures import draw

    ablations = {p.stem: pd.read_parquet(p) for p in sorted((folder / "tables").glob("ablation_*.parquet"))}
    written: list[Path] = []
    prefixes = {(r, v): table_prefix(r, v) for r in REGIMES for v in LEVELS}
    for (regime, level), prefix in prefixes.items():
        if f"{prefix}heads" not in tables:
            continue
        longer = [p for p in prefixes.values() if p.startswith(prefix) and p != prefix]
        mine = {n.removeprefix(prefix): t for n, t in tables.items() if n.startswith(prefix) and not n.startswith(tuple(longer))}
        note = regime if level == "clip" else f"{regime}, tokens"
        written += draw({**ablations, **mine}, folder / "figures", prefix, {**caption, "regime": note})
    return written


def paper(results: dict[str, Analysis], folder: Path, model: str) -> None:
    """The seeds' tables and, for several datasets, the tests between them."""
    import pandas as pd

    from ..analysis.dimension import MEASURES
    from ..analysis.statistics import dataset_tests
    from ..report.paper_tables import paper_tables
    from ..report.tables import write_paper_table, write_table

    for prefix in ("", "postproj_"):
        mine = {
            name: {title.removeprefix(prefix): t for title, t in analysis.tables.items() if title.startswith(prefix)}
            for name, analysis in results.items()
        }
        if not all("heads" in tables for tables in mine.values()):
            continue
        for title, (caption, table) in paper_tables(mine, model).items():
            write_paper_table(table, folder, prefix + title, caption)
        if len(mine) > 1:
            together = pd.concat([tables["heads"].assign(dataset=name) for name, tables in mine.items()], ignore_index=True)
            write_table(dataset_tests(together, list(MEASURES)), folder.parent, f"{prefix}dataset_statistics")


def first_tables(results: dict[str, Analysis]) -> list:
    """What the screen shows: one line a stage, or a block where there is one stage."""
    from rich.table import Table

    columns = {"PCA₉₉": "pca_99", "PR": "participation_ratio", "rank": "effective_rank", "EVR₁": "evr_1", "TwoNN": "twonn",
               "MLE": "mle", "L/N": "l_n", "Fisher": "fisher"}  # fmt: skip
    shown = []
    for name, analysis in results.items():
        for title in [t for t in analysis.tables if t.endswith("stages")]:
            prefix = title.removesuffix("stages")
            table = analysis.tables[title]
            table = analysis.tables[f"{prefix}blocks"] if len(table) == 1 else table
            screen = Table("", "heads", *columns, title=f"{prefix}{name}, means over heads")
            for _, row in table.iterrows():
                place = f"S{int(row.stage)}" + (f"B{int(row.block)}" if "block" in row else "")
                screen.add_row(place, str(int(row.heads)), *("–" if row[c] != row[c] else f"{row[c]:.2f}" for c in columns.values()))
            shown.append(screen)
    return shown
