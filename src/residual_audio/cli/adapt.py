"""``residual-audio adapt`` and ``residual-audio fold``"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options as given


def register(app: typer.Typer) -> None:
    app.command("adapt")(adapt)
    app.command("fold")(fold)


def adapt(
    model: given.ModelArgument,
    dataset: given.DatasetArgument,
    out: Annotated[Path, typer.Option(help="Directory of the adapter (PEFT's shape: config, safetensors, card).")],
    units: given.Units = "heads",
    level: given.BasisLevel = "token",
    random: Annotated[bool, typer.Option("--random-axes", help="Random orthonormal axes instead of principal ones: a control.")] = False,
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
    push: Annotated[str | None, typer.Option("--push-to-hub", help="Also upload the adapter to this hub repository.")] = None,
    data_root: given.DataRoot = None,
    download: given.Download = False,
    template: given.Template = "sound-of",
    limit: given.Limit = None,
    workers: given.Workers = None,
    device: given.Device = "cpu",
    seconds: given.Seconds = None,
    seed: given.Seed = 0,
) -> None:
    """Learn one gain per principal axis of the chosen units; everything else stays frozen.

    A fifth of the clips gives the basis, a fifth says when to stop, the rest is learned from. Nothing is written until training is done.

    ```
    residual-audio adapt tiny synthetic-timbre --units "S3 heads" --rate 0.1 --out adapters/timbre
    residual-audio fold tiny adapters/timbre --out folded/timbre
    residual-audio zero-shot folded/timbre synthetic-timbre
    ```
    """
    from dataclasses import asdict

    from ..adaptation import push_adapter, save_adapter
    from ..adaptation.adapt import adapt as run_adaptation
    from ..adaptation.task import Recipe
    from .output import write_record
    from .screen import console, errors, progress

    encoder = given.open_model(model, device, seconds=seconds)
    data = given.open_dataset(dataset, data_root, download, limit)
    training = given.training(epochs, patience, rate, optimiser, seed, decay, l1, batch_size)
    recipe = Recipe(units, level, given.number(kept), start, mean, objective, logit_scale, top, training, basis=basis, by=by)

    def tell(epoch: dict[str, float]) -> None:
        if errors.is_terminal:
            line = f"epoch {epoch['epoch']:.0f}: loss {epoch['train_loss']:.3f}, stopping accuracy {100 * epoch['stop_accuracy']:.1f} %"
            errors.print(line, highlight=False)

    with progress(f"decoding {data.name}", len(data)) as advance:
        found = run_adaptation(
            encoder, data, recipe, template=template, random=random, seed=seed, workers=workers, advance=advance, tell=tell
        )
    save_adapter(out, encoder, found.residual)
    if found.errors:
        errors.print(f"{len(found.errors)} clips could not be read and were left out", highlight=False)
    write_record(out / "training.json", {"history": found.history, "recipe": asdict(recipe), "dataset": data.name})
    if push is not None:
        console.print(push_adapter(out, push), highlight=False)
    gain = f"{100 * found.before:.1f} % → {100 * found.after:.1f} %"
    console.print(
        f"{found.residual.trained:,} gains in {out}; accuracy on the stopping part {gain} (it chose the gains: see `compare`)",
        highlight=False, soft_wrap=True,
    )  # fmt: skip


def fold(
    model: given.ModelArgument,
    adapter: Annotated[str, typer.Argument(metavar="ADAPTER", help="A directory that `adapt` wrote, or a hub repository.")],
    out: Annotated[Path, typer.Option(help="Directory of the new checkpoint; must not exist, or be empty.")],
    device: given.Device = "cpu",
    seconds: given.Seconds = None,
) -> None:
    """Write the gains into the weights: an ordinary checkpoint of the same layout, with the same outputs, at no extra cost.

    LAION's layout then loads with plain `ClapModel.from_pretrained`, Microsoft's is a `.pth` with exactly the keys of the original.

    ```
    residual-audio fold tiny adapters/timbre --out folded/timbre
    ```
    """
    import shutil
    import tempfile

    from ..adaptation import FoldError, load_adapter
    from ..adaptation import fold as run_fold
    from .screen import console

    if out.exists() and any(out.iterdir()):
        raise FoldError(f"{out} is not empty; choose another --out")
    encoder = given.open_model(model, device, seconds=seconds)
    folded = run_fold(encoder, load_adapter(adapter, encoder))
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        folded.save(draft)
        if out.exists():
            out.rmdir()
        draft.rename(out)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    console.print(f"{out}: {', '.join(sorted(p.name for p in out.iterdir()))}", highlight=False, soft_wrap=True)
