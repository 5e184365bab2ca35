"""``residual-audio truncate``"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ..adaptation.defaults import UNITS
from ..models.loading import Loading
from ..rounding import percent
from .checks import check_classifiers, check_model, check_template, writable
from .options import Data, DatasetArgument, Machine, ModelArgument, open_model, takes


@takes(data=Data, machine=Machine, loading=Loading)
def truncate(
    model: ModelArgument,
    dataset: DatasetArgument,
    out: Annotated[Path, typer.Option(help="Directory for retention.json, tables/ and figures/.")],
    data: Data,
    machine: Machine,
    loading: Loading,
    units: Annotated[str, typer.Option(help='Units to truncate, as in `adapt`: "S3 heads".')] = UNITS,
    retain: Annotated[
        str, typer.Option(help="Axes to retain: numbers or shares of the variance, comma-separated; default: 1,2,4, … all.")
    ] = "",
    level: Annotated[Literal["token", "clip"], typer.Option(help="PCA of all tokens (token) or of each clip's mean (clip).")] = "token",
    classifier: Annotated[str, typer.Option(help="prompts, centroids, or auto: prompts where the encoder has a text side.")] = "auto",
    template: Annotated[str | None, typer.Option(help="A set of prompts, or your own text with {}; default: sound-of.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of folds and random axes.")] = 0,
) -> None:
    """Accuracy against the principal axes that units retain; nothing is trained.

    Everything outside the first k axes of a unit is dropped, its mean is kept. Random axes are the control.

    ```
    residual-audio truncate tiny synthetic-timbre --units "S3 heads" --out runs/truncate-timbre
    ```
    """
    writable(out)
    check_model(model)
    check_classifiers(classifier)
    check_template(template)
    clips = data.open(dataset)
    from ..adaptation.retention import parse_retained, retention
    from .figures import draw
    from .screen import console, screen_table, unreadable

    numbers = parse_retained(retain)
    encoder = open_model(model, machine, loading)
    found = retention(
        encoder, clips, units, numbers, level=level, classifier=classifier, template=template, seed=seed, workers=machine.workers,
    )  # fmt: skip
    found.write(out)
    draw(found.tables, out / "figures", {"model": encoder.name, "dataset": clips.name, "clips": len(clips) - len(found.errors)})
    unreadable(found.errors, clips, out / f"{found.record}.json")
    table = screen_table("axes", "retained", "variance %", "accuracy %", "95 %", title=f"{encoder.name} on {clips.name}: {units}")
    for row in found.curve.itertuples():
        interval = f"[{percent(row.low)}, {percent(row.high)}]"
        table.add_row(row.axes, f"{row.retain:g}", percent(row.share), percent(row.accuracy), interval)
    console.print(table)
