"""``residual-audio few-shot``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import options as given

if TYPE_CHECKING:
    from ..comparison.few_shot import FewShot


def register(app: typer.Typer) -> None:
    app.command("few-shot")(few_shot)


def few_shot(
    model: given.ModelArgument,
    dataset: given.DatasetArgument,
    out: Annotated[Path, typer.Option(help="Folder of the curve; the same command goes on at the last finished fold × method.")],
    methods: Annotated[str, typer.Option(help="Comma-separated methods of `compare`.")] = "plain,probe,residual",
    shots: Annotated[str, typer.Option(help="Clips a class in all, comma-separated; `all` for no limit.")] = "1,2,4,8,16,all",
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
    repeats: Annotated[int, typer.Option(min=1, help="Repeat everything with other draws of clips.")] = 1,
    limit: given.Limit = None,
    workers: given.Workers = None,
    device: given.Device = "cpu",
    seconds: given.Seconds = None,
    seed: given.Seed = 0,
) -> None:
    """How accuracy grows with the clips a class: one comparison a point, all on the same whole test folds.

    N clips a class are all that a method may use: a quarter of them (at least one of two) says when to stop, the others are learned from,
    and the basis is theirs. `all` is the split of `compare`. With few clips draws differ much: `--repeats 5` averages over several.

    ```
    residual-audio few-shot tiny synthetic-timbre --units "S3 heads" --rate 0.1 --out runs/few-shot-timbre
    residual-audio few-shot tiny folder:my-sounds --methods plain,probe,residual --shots 1,4,16,all --repeats 5 --out runs/few-shot
    ```
    """
    from ..adaptation.task import Recipe
    from ..comparison.few_shot import NOTE, parse_shots
    from ..comparison.few_shot import few_shot as run_few_shot
    from ..report.figures import draw
    from ..report.tables import write_table
    from .output import provenance, write_record
    from .screen import console, errors, progress

    points = parse_shots(shots)
    wanted = [m.strip() for m in methods.split(",") if m.strip()]
    training = given.training(epochs, patience, rate, optimiser, seed, decay, l1, batch_size)
    recipe = Recipe(units=units, level=level, kept=given.number(kept), start=start, mean=mean, objective=objective, scale=logit_scale,
                    top=top, training=training, basis=basis, by=by)  # fmt: skip
    encoder = given.open_model(model, device, seconds=seconds)
    data = given.open_dataset(dataset, data_root, download, limit)
    with progress(f"decoding {data.name}", len(data)) as advance:
        found = run_few_shot(
            encoder, data, wanted, out, recipe, shots=points, folds=folds, template=template, repeats=repeats, seed=seed, workers=workers,
            advance=advance, tell=lambda line: errors.print(line, highlight=False) if errors.is_terminal else None,
        )  # fmt: skip
    write_table(found.table, out / "tables", "few_shot")
    settings = {"methods": wanted, "shots": shots, "units": units, "folds": folds, "repeats": repeats, "limit": limit, "seed": seed}
    write_record(out / "few_shot.json", {**provenance(encoder, data, settings), "note": NOTE})
    caption = {"model": encoder.name, "dataset": data.name, "clips": len(data) - len(found.errors)}
    drawn = draw({"few_shot": found.table}, out / "figures", caption=caption)
    if found.errors:
        errors.print(f"{len(found.errors)} clips could not be read and were left out", highlight=False)
    show(found, f"{encoder.name} on {data.name}")
    console.print(f"table and figure: {out / 'tables'}, {', '.join(map(str, drawn))}", highlight=False, soft_wrap=True)


def show(found: FewShot, title: str) -> None:
    """A row a method, a column a number of shots."""
    from rich.table import Column, Table

    from ..comparison.few_shot import NOTE
    from .screen import console

    table = found.table
    points = list(dict.fromkeys(table.shots))
    screen = Table(Column("method", no_wrap=True), *points, title=f"{title}: accuracy % ± std over folds", caption=NOTE)
    for method, rows in table.groupby("method", sort=False):
        cells = rows.set_index("shots")
        screen.add_row(method, *(f"{100 * cells.accuracy[p]:.1f} ± {100 * cells['std'][p]:.1f}" for p in points))
    console.print(screen)
