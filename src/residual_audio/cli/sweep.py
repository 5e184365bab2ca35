"""``residual-audio sweep``"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..adaptation.recipe import Recipe
from ..comparison.protocol import COMPARED, Protocol, bare
from ..models.loading import Loading
from ..options import OptionError, words
from ..rounding import percent
from .checks import check_classifiers, check_model, check_template, writable
from .options import Data, Machine, of_methods, open_model, takes

if TYPE_CHECKING:
    import pandas as pd

    from ..comparison.sweep import Work
    from ..data import Dataset


@takes(recipe=of_methods(), protocol=Protocol, data=Data, machine=Machine, loading=Loading)
def sweep(
    models: Annotated[str, typer.Argument(metavar="MODELS", help="Comma-separated models; see `residual-audio models`.")],
    datasets: Annotated[str, typer.Argument(metavar="DATASETS", help="Comma-separated datasets; see `residual-audio datasets`.")],
    out: Annotated[Path, typer.Option(help="One folder per pair, OUT/MODEL/DATASET; rerun the same command to resume.")],
    recipe: Recipe,
    protocol: Protocol,
    data: Data,
    machine: Machine,
    loading: Loading,
    what: Annotated[
        Literal["compare", "analyze"], typer.Option(help="Cross-validate methods, or extract and analyse every head.")
    ] = "compare",
    methods: Annotated[str | None, typer.Option(help="Of compare: comma-separated methods; the first is the baseline.")] = None,
    regime: Annotated[
        Literal["pre", "post", "both", "uncentred"] | None, typer.Option(help="Of analyze: as its own --regime; default: pre.")
    ] = None,
    k: Annotated[int | None, typer.Option("--k", min=2, help="Of analyze: neighbours of MLE; default: 20.")] = None,
    points: Annotated[int | None, typer.Option(min=3, help="Of analyze: at most so many clips, evenly over classes and folds.")] = None,
) -> None:
    """`compare` or `analyze` on every pair of several models and datasets: one table, `OUT/tables/sweep`.

    A finished pair is not done again, and one that was killed goes on where it was. A pair that cannot be done is named, and the others
    go on. `--data-root` may hold one folder per dataset, by its name.

    ```
    residual-audio sweep tiny notes,synthetic-timbre --methods plain,residual --rate 0.1 --out runs/sweep
    residual-audio sweep tiny,laion/clap-htsat-unfused esc50,vocalsound --data-root ~/data --limit 1200 --what analyze --out runs/heads
    ```
    """
    chosen = words(methods) if methods else list(COMPARED)
    of_analysis = {"regime": regime, "k": k, "points": points}
    if what == "analyze" and (methods or len(recipe) or protocol != Protocol()):
        raise OptionError("--methods, their options and those of folds and classifiers are read by --what compare only")
    if what == "compare" and any(value is not None for value in of_analysis.values()):
        raise OptionError("--regime, --k and --points are read by --what analyze only")
    if what == "compare":
        recipe.check(bare(chosen))  # before anything heavy is loaded
    writable(out)
    for name in words(models):
        check_model(name)
    check_classifiers(protocol.classifier)
    check_template(protocol.template)
    from ..comparison.sweep import analysed, compared
    from ..comparison.sweep import sweep as run_sweep
    from .screen import console, say, tell

    given: dict[str, Any] = {key: value for key, value in of_analysis.items() if value is not None}
    work: Work
    if what == "analyze":
        work, settings = analysed(**given, workers=machine.workers), given
    else:
        work = compared(methods=chosen, recipe=recipe, protocol=protocol, workers=machine.workers, tell=tell)
        settings = {"methods": chosen, "recipe": dict(recipe), "protocol": asdict(protocol)}

    def opened(name: str) -> Dataset:
        root = Path(data.data_root).expanduser() / name if data.data_root else None
        return (replace(data, data_root=str(root)) if root is not None and root.is_dir() else data).open(name)

    swept = run_sweep(
        words(models), words(datasets), lambda name: open_model(name, machine, loading), opened, out, work,
        {"what": what, **settings, "loading": asdict(loading)}, tell,
    )  # fmt: skip
    swept.write(out)
    console.print(screen_of(swept.table, what))
    for pair, error in swept.errors.items():
        say(f"left out: {pair}: {error}")
    say(f"table: {out / 'tables' / 'sweep.csv'}")


def screen_of(table: pd.DataFrame, what: str) -> object:
    """One line per pair: the accuracy of every method, or PCA99 and TwoNN of first and last stage."""
    from .screen import screen_table

    if what == "compare":
        names = list(dict.fromkeys(table.method))
        screen = screen_table("model", "dataset", "clips", *names, title="accuracy %, mean over test clips")
        for (model, dataset), rows in table.groupby(["model", "dataset"], sort=False):
            by = rows.set_index("method").accuracy
            screen.add_row(Path(model).name, dataset, f"{rows.clips.iloc[0]:,}", *(percent(by[n]) if n in by else "–" for n in names))
        return screen
    shown = {"pca_99": "PCA99", "twonn": "TwoNN", "evr_1": "EVR1"}
    columns = [f"{short}, {place}" for short in shown.values() for place in ("first", "last")]
    screen = screen_table("model", "dataset", "clips", *columns, title="means over the heads of the first and the last stage")
    for (model, dataset, _), rows in table.groupby(["model", "dataset", "regime"], sort=False):
        ends = rows.sort_values("stage").iloc[[0, -1]]
        cells = [f"{value:.2f}" for measure in shown for value in ends[measure]]
        screen.add_row(Path(model).name, dataset, f"{rows.clips.iloc[0]:,}", *cells)
    return screen
