"""``residual-audio compare``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import options as given

if TYPE_CHECKING:
    from ..comparison.compare import Comparison


def register(app: typer.Typer) -> None:
    app.command("compare")(compare)


def compare(
    model: given.ModelArgument,
    dataset: given.DatasetArgument,
    out: Annotated[Path, typer.Option(help="Folder of the comparison; the same command goes on at the last finished fold × method.")],
    methods: Annotated[
        str,
        typer.Option(
            help="Comma-separated; the first is the baseline. Trained: probe, residual, residual-random, head-scalar, aligner, lora, "
            "finetune; without training: plain, top-heads, fisher-gains, prune-early, amplify-minor, suppress-weak, amplify-middle; or all."
        ),
    ] = "plain,probe,residual,residual-random,head-scalar,top-heads,fisher-gains,aligner",
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
    lora_rank: Annotated[int, typer.Option(min=1, help="Rank of `lora`.")] = 4,
    lora_rate: Annotated[float, typer.Option(help="Learning rate of `lora`.")] = 1e-3,
    finetune_rate: Annotated[float, typer.Option(help="Learning rate of `finetune`.")] = 1e-4,
    other: Annotated[
        str | None, typer.Option(help="A second dataset: does adapting harm it? (zero-shot accuracy of the adapted models)")
    ] = None,
    data_root: given.DataRoot = None,
    download: given.Download = False,
    template: given.Template = "sound-of",
    folds: given.Folds = "official",
    repeats: Annotated[int, typer.Option(min=1, help="Repeat everything with other seeds.")] = 1,
    shots: Annotated[
        int | None, typer.Option(min=1, help="So many clips a class for everything outside the test; see `residual-audio few-shot`.")
    ] = None,
    limit: given.Limit = None,
    workers: given.Workers = None,
    device: given.Device = "cpu",
    seconds: given.Seconds = None,
    seed: given.Seed = 0,
) -> None:
    """Cross-validate adaptation methods against each other, with intervals and corrected tests.

    Inside each training fold, disjoint parts give the basis, are learned from, and say when to stop; the test fold is scored once.

    ```
    residual-audio compare tiny synthetic-timbre --units "S3 heads" --out runs/compare-timbre
    ```
    """
    from dataclasses import asdict

    from ..adaptation.methods_old import METHODS
    from ..adaptation.task import Recipe
    from ..comparison.compare import compare as run_comparison
    from ..report.figures import draw
    from ..report.tables import write_table
    from .output import provenance, write_record
    from .screen import errors, progress

    encoder = given.open_model(model, device, seconds=seconds)
    data = given.open_dataset(dataset, data_root, download, limit)
    second = given.open_dataset(other, None, download, limit) if other else None
    training = given.training(epochs, patience, rate, optimiser, seed, decay, l1, batch_size)
    recipe = Recipe(
        units, level, given.number(kept), start, mean, objective, logit_scale, top, training, basis, by, lora_rank, lora_rate, finetune_rate
    )
    wanted = list(METHODS) if methods == "all" else [m.strip() for m in methods.split(",") if m.strip()]
    with progress(f"decoding {data.name}", len(data) + (len(second) if second else 0)) as advance:
        found = run_comparison(
            encoder, data, wanted, out / "comparison", recipe, other=second, folds=folds, template=template, repeats=repeats, shots=shots,
            seed=seed, workers=workers, advance=advance,
            tell=lambda line: errors.print(line, highlight=False) if errors.is_terminal else None,
        )  # fmt: skip
    for name, table in (("cells", found.cells), ("summary", found.summary), ("paired", found.paired)):
        write_table(table, out / "tables", f"comparison_{name}")
    settings = {"methods": wanted, "recipe": asdict(recipe), "folds": folds, "template": template, "shots": shots, "seed": seed}
    settings |= {"repeats": repeats, "other": other}
    write_record(out / "comparison.json", provenance(encoder, data, settings))
    caption = {"model": encoder.name, "dataset": data.name, "clips": len(data) - len(found.errors)}
    draw({"comparison_summary": found.summary}, out / "figures", caption=caption)
    if found.errors:
        errors.print(f"{len(found.errors)} clips could not be read and were left out", highlight=False)
    show(found, encoder.name, data.name, second.name if second else "")


def show(found: Comparison, model: str, data: str, other: str = "") -> None:
    """The methods on one screen."""
    from rich.table import Column, Table

    from .screen import console

    p = found.paired.set_index("method").p_holm
    baseline = found.summary.method.iloc[0]
    extra = [f"on {other}"] if other else []
    table = Table(
        Column("method", no_wrap=True),
        "trained",
        "accuracy %",
        "95 %",
        f"p vs {baseline}",
        "s a fold",
        "MB",
        *extra,
        title=f"{model} on {data}",
    )
    for _, row in found.summary.iterrows():
        cells = [
            row.method,
            f"{row.trained:,}",
            f"{100 * row.accuracy:.1f} ± {100 * row['std']:.1f}",
            f"[{100 * row.low:.1f}, {100 * row.high:.1f}]",
        ]
        cells += [f"{p[row.method]:.3f}" if row.method in p else "", f"{row.seconds:.0f}", f"{row.peak_mb:.0f}"]
        if other:
            cells.append(f"{100 * row.other:.1f}" if row.other == row.other else "–")
        table.add_row(*cells)
    console.print(table)
