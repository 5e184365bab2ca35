"""``residual-audio search``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import options as given

if TYPE_CHECKING:
    from ..comparison.search import Search

SHOWN = 15


def register(app: typer.Typer) -> None:
    app.command("search")(search)


def search(
    model: given.ModelArgument,
    dataset: given.DatasetArgument,
    out: Annotated[Path, typer.Option(help="Folder of the search; the same command goes on at the last finished fold of the last trial.")],
    space: Annotated[
        str, typer.Option(help="stages (all subsets of them), grid (every combination of --set) or optuna (draws).")
    ] = "stages",
    form: Annotated[str, typer.Option(help="What subsets of stages reweight: heads, blocks, stages or mlps.")] = "heads",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="KEY=V1,V2,… (grid, optuna) or KEY=LOW:HIGH[:log] (optuna), for any field of the recipe: rate, kept, "
            "start, objective, mean, units, level, decay, l1, epochs, optimiser, … May be given several times.",
        ),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="How many draws `optuna` makes.")] = 20,
    method: Annotated[
        str, typer.Option(help="residual, residual-random, head-scalar or another that is trained with a stopping part.")
    ] = "residual",
    units: given.Units = "heads",
    level: given.BasisLevel = "token",
    kept: given.Kept = None,
    start: given.Start = None,
    mean: given.Mean = "keep",
    objective: given.ObjectiveName = "auto",
    logit_scale: given.LogitScale = None,
    epochs: given.Epochs = 40,
    patience: given.Patience = 6,
    rate: given.Rate = 0.02,
    optimiser: given.Optimiser = "adamw",
    decay: given.Decay = 1e-4,
    l1: given.Sparsity = 0.0,
    batch_size: given.TrainingBatch = 64,
    basis: given.BasisFrom = "own",
    top: given.TopHeads = None,
    by: given.By = None,
    data_root: given.DataRoot = None,
    download: given.Download = False,
    template: given.Template = "sound-of",
    folds: given.Folds = "official",
    repeats: Annotated[int, typer.Option(min=1, help="Repeat everything with other seeds.")] = 1,
    limit: given.Limit = None,
    workers: given.Workers = None,
    device: given.Device = "cpu",
    seconds: given.Seconds = None,
    seed: given.Seed = 0,
) -> None:
    """Try many recipes and choose one honestly: by accuracy on the stopping part of the training folds, never by the test folds.

    Test accuracies stand beside the ranking to be looked at; choosing by them would flatter. `nested` is the accuracy when every fold
    takes the trial that was best on its own stopping part: what this search is worth on new clips.

    ```
    residual-audio search tiny synthetic-timbre --space stages --rate 0.1 --out runs/stages-timbre
    residual-audio search tiny synthetic-timbre --space grid --units "S3 heads" --set rate=0.02,0.1 --set mean=keep,drop --out runs/grid
    residual-audio search tiny synthetic-timbre --space optuna --set rate=1e-3:1:log --set kept=2:8 --trials 30 --out runs/draws
    ```
    """
    from ..adaptation.task import Recipe
    from ..comparison.search import plan
    from ..comparison.search import search as run_search
    from ..report.figures import draw
    from ..report.tables import write_table
    from .output import provenance, write_record
    from .screen import console, errors, progress

    training = given.training(epochs, patience, rate, optimiser, seed, decay, l1, batch_size)
    recipe = Recipe(units=units, level=level, kept=given.number(kept), start=start, mean=mean, objective=objective, scale=logit_scale,
                    top=top, training=training, basis=basis, by=by)  # fmt: skip
    encoder = given.open_model(model, device, seconds=seconds)
    data = given.open_dataset(dataset, data_root, download, limit)
    count = len(plan(encoder.units, space, recipe, settings or [], form)[1]) or trials
    with progress(f"decoding {data.name}, {count} trials", count * len(data)) as advance:
        found = run_search(
            encoder, data, out, space, recipe, settings=settings or [], form=form, trials=trials, method=method, folds=folds,
            template=template, repeats=repeats, seed=seed, workers=workers, advance=advance,
            tell=lambda line: errors.print(line, highlight=False) if errors.is_terminal else None,
        )  # fmt: skip
    write_table(found.table, out / "tables", "search")
    write_table(found.picks, out / "tables", "search_picks")
    choices = {"space": space, "form": form, "set": settings, "trials": trials, "method": method, "units": units, "folds": folds,
               "repeats": repeats, "limit": limit, "seed": seed}  # fmt: skip
    best = found.table.iloc[0].to_dict()
    write_record(
        out / "search.json",
        {**provenance(encoder, data, choices), "best": best, "nested": {**found.nested._asdict(), "std": found.nested_std}},
    )
    caption = {"model": encoder.name, "dataset": data.name, "clips": len(data) - len(found.errors)}
    drawn = draw({"search": found.table}, out / "figures", caption=caption)
    if found.errors:
        errors.print(f"{len(found.errors)} clips could not be read and were left out", highlight=False)
    show(found, f"{encoder.name} on {data.name}")
    console.print(f"written: {', '.join(map(str, [out / 'tables', *drawn]))}", highlight=False, soft_wrap=True)


def show(found: Search, title: str) -> None:
    """The best trials by stopping accuracy, and what choosing is worth."""
    from rich.table import Column, Table

    from .screen import console

    screen = Table(Column("trial", overflow="fold"), "trained", "stopping %", "test %", "95 %", title=title)
    for _, row in found.table.head(SHOWN).iterrows():
        screen.add_row(
            row.trial, f"{row.trained:,}", f"{100 * row.stop_accuracy:.1f}", f"{100 * row.accuracy:.1f} ± {100 * row['std']:.1f}",
            f"[{100 * row.low:.1f}, {100 * row.high:.1f}]",
        )  # fmt: skip
    if len(found.table) > SHOWN:
        screen.caption = f"the first {SHOWN} of {len(found.table)} trials"
    console.print(screen)
    best = found.table.iloc[0]
    console.print(
        f"chosen by the stopping part: {best.trial}, test {100 * best.accuracy:.1f} % (as it is: {100 * best.plain:.1f} %); "
        f"every fold choosing for itself (nested): {found.nested.percent()} %",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
