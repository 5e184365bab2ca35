"""``residual-audio ablate``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import options as given

if TYPE_CHECKING:
    from ..ablation import AblationResult

SHOWN = 6


def register(app: typer.Typer) -> None:
    app.command("ablate")(ablate)


def ablate(
    model: given.ModelArgument,
    dataset: given.DatasetArgument,
    unit: Annotated[
        str, typer.Option(help="What to replace, one at a time: head, block (its attention), stage (all of its attention), mlp.")
    ] = "head",
    how: Annotated[str, typer.Option(help="zero, or mean: the unit's mean over the data.")] = "mean",
    metric: Annotated[
        str,
        typer.Option(
            help="zero-shot (prompts), centroid (of the other folds) or probe (logistic, on the other folds); auto: the first that works."
        ),
    ] = "auto",
    data_root: given.DataRoot = None,
    download: given.Download = False,
    template: given.Template = "sound-of",
    folds: given.Folds = "official",
    limit: given.Limit = None,
    batch_size: given.BatchSize = 8,
    rows: Annotated[int, typer.Option(min=1, help="Clips × units that go through the model at once.")] = 32,
    workers: given.Workers = None,
    device: given.Device = "cpu",
    seconds: given.Seconds = None,
    crop: given.Crop = None,
    pad: given.Pad = None,
    seed: given.Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for tables/ablation_UNIT; may be an extraction's run. The same command goes on where it stopped."),
    ] = None,
) -> None:
    """Replace every unit in turn and see what the classifier loses: in accuracy, in margin, by class, with intervals.

    The forward up to a unit runs once and only what follows is repeated. Beside the true drop in margin stands its first-order estimate,
    which one backward pass gives for all units, and their rank correlation. The margin is the true class's score above the best other's.

    ```
    residual-audio ablate tiny synthetic-timbre --unit block --how zero
    residual-audio ablate tiny synthetic --limit 200 --out runs/synthetic
    ```
    """
    from ..ablation import ablate as run_ablation
    from .screen import console, errors, progress

    encoder = given.open_model(model, device, seconds=seconds, crop=crop, pad=pad)
    data = given.open_dataset(dataset, data_root, download, limit)
    if metric == "auto":
        metric = "zero-shot" if encoder.has_text else "centroid"
    with progress(f"{unit} ablation of {encoder.name} on {data.name}", 2 * len(data)) as advance:
        result = run_ablation(
            encoder, data, unit, how, metric, template=template, folds=folds, batch_size=batch_size, rows=rows,  # type: ignore[arg-type]
            out=None if out is None else out / "ablation" / f"{unit}-{how}-{metric}", workers=workers, seed=seed, advance=advance,
        )  # fmt: skip
    if result.errors:
        shown = "\n".join(f"  {message}" for message in list(result.errors.values())[:5])
        errors.print(
            f"{len(result.errors)} clips could not be read and were left out:\n{shown}", highlight=False, markup=False, soft_wrap=True
        )
    show(result, encoder.name, data.name)
    if out is not None:
        from ..report.tables import write_table
        from .output import provenance, write_record

        write_table(result.table(), out / "tables", f"ablation_{unit}")
        write_table(result.per_class(), out / "tables", f"ablation_class_{unit}")
        choices = {"unit": unit, "how": how, "metric": metric, "template": template, "folds": folds, "limit": limit, "seed": seed}
        record = {**provenance(encoder, data, choices), "accuracy": result.accuracy, "first_order_spearman": result.agreement()}
        record["clips"] = {"used": len(result.targets), "errors": result.errors}
        write_record(out / f"ablation_{unit}.json", record)
        console.print(f"tables: {out / 'tables'}", highlight=False, soft_wrap=True)


def show(result: AblationResult, model: str, data: str) -> None:
    """The units that matter most."""
    from rich.table import Table

    from .screen import console

    table = result.table().sort_values("margin_drop", ascending=False)
    title = f"{model} on {data}: {result.how} ablation, {result.metric} accuracy {100 * result.accuracy:.1f} %, {len(result.targets)} clips"
    screen = Table("unit", "accuracy drop, points [95 %]", "margin drop [95 %]", "first order", title=title)
    for _, r in table.head(SHOWN).iterrows():
        accuracy = f"{100 * r.accuracy_drop:+.1f} [{100 * r.accuracy_low:+.1f}, {100 * r.accuracy_high:+.1f}]"
        screen.add_row(r.label, accuracy, f"{r.margin_drop:+.4f} [{r.margin_low:+.4f}, {r.margin_high:+.4f}]", f"{r.first_order:+.4f}")
    console.print(screen)
    rho, p = result.agreement()
    if rho == rho:
        console.print(
            f"first-order estimate against true drop in margin: Spearman ρ = {rho:.3f} (p = {p:.1e})", highlight=False, soft_wrap=True
        )
