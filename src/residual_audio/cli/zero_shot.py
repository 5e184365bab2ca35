"""``residual-audio zero-shot``"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from . import options as given
from .late_help import ClassifierName, Template, classifier_help, late_help, template_help

if TYPE_CHECKING:
    from ..evaluation import ZeroShotResult


def register(app: typer.Typer) -> None:
    app.command("zero-shot", cls=late_help(classifier=classifier_help, template=template_help))(zero_shot)


def zero_shot(
    model: given.ModelArgument,
    dataset: given.DatasetArgument,
    data_root: given.DataRoot = None,
    download: given.Download = False,
    classifier: ClassifierName = "auto",
    template: Template = None,
    folds: given.Folds = "official",
    limit: given.Limit = None,
    out: given.Out = None,
    batch_size: given.BatchSize = 16,
    workers: given.Workers = None,
    device: given.Device = "cpu",
    seed: given.Seed = 0,
    seconds: given.Seconds = None,
    crop: given.Crop = None,
    pad: given.Pad = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with status 1 if any clip could not be read.")] = False,
) -> None:
    """Classify a dataset with the model as it is, with 95 % bootstrap intervals.

    Prints top-1, top-5 and macro accuracy and the hardest classes; `--out` keeps all tables.

    ```
    residual-audio zero-shot tiny synthetic-timbre
    residual-audio zero-shot laion/clap-htsat-unfused esc50 --data-root ~/data/ESC-50 --template laion --out runs/laion-esc50
    residual-audio zero-shot ~/models/whisper-tiny.en esc50 --data-root ~/data/ESC-50 --seconds 5
    ```
    """
    from ..evaluation import zero_shot as evaluate
    from .screen import console, errors, progress

    encoder = given.open_model(model, device, seconds=seconds, crop=crop, pad=pad)
    data = given.open_dataset(dataset, data_root, download, limit)
    with progress(f"{encoder.name} on {data.name}", len(data)) as advance:
        result = evaluate(
            encoder, data, classifier=classifier, template=template, folds=folds, batch_size=batch_size, workers=workers, seed=seed,
            advance=advance,
        )  # fmt: skip
    if out is not None:
        result.write(out)
    show(result)
    if result.errors:
        first = "\n".join(f"  {message}" for message in list(result.errors.values())[:5])
        errors.print(
            f"{len(result.errors)} of {len(data)} clips could not be read and were left out:\n{first}", highlight=False, soft_wrap=True
        )
    if out is not None:
        console.print(f"written to {out}", highlight=False, soft_wrap=True)
    if strict and result.errors:
        raise typer.Exit(1)


def show(result: ZeroShotResult) -> None:
    """The figures, and the classes it finds hardest."""
    from rich.table import Table

    from .screen import console

    data, settings = result.dataset, result.made_by["settings"]
    how = f"{result.classifier} '{settings['template']}'" if "template" in settings else f"{result.classifier} of the other folds"
    table = Table(
        "measure",
        "percent [95 % interval]",
        title=f"{result.made_by['model']['name']} on {data.name}",
        caption=f"{len(data)} clips, {len(data.labels)} classes, {how}",
    )
    for name, interval in result.summary().items():
        table.add_row(name, interval.percent())
    table.add_row("chance", f"{100 / len(data.labels):.1f}")
    folds = result.per_fold()
    if len(folds) > 1:
        table.add_row(f"{len(folds)} folds ({data.folds})", f"{100 * folds.accuracy.mean():.1f} ± {100 * folds.accuracy.std(ddof=0):.1f}")
    console.print(table)
    classes = result.per_class().sort_values(["accuracy", "label"]).head(8)
    hardest = Table("hardest classes", "clips", "percent", "most often taken for")
    for row in classes.itertuples():
        hardest.add_row(row.label, str(row.clips), f"{100 * row.accuracy:.0f}", row.most_confused_with)
    console.print(hardest)
