"""Options that several verbs share, described once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..adaptation.train import Training
    from ..data import Dataset
    from ..models import Encoder

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="`tiny`, a hub repository, a checkpoint directory or Microsoft's .pth; see `residual-audio models`."
    ),
]
DatasetArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATASET",
        help="A dataset name, `folder:PATH`, a CSV/Parquet file or `hf:REPO` (images for a vision tower); see `residual-audio datasets`.",
    ),
]
DataRoot = Annotated[Path | None, typer.Option("--data-root", help="Where the dataset lies on disk.")]
Download = Annotated[bool, typer.Option("--download", help="Fetch the dataset if it is not there (checksums are verified).")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Use at most so many clips, spread over the classes.")]
Out = Annotated[Path | None, typer.Option("--out", help="Directory for run.json, clips.parquet and tables/.")]
BatchSize = Annotated[int, typer.Option("--batch-size", min=1)]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Threads that decode ahead of the model; default: one a core, at most 8.")
]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, mps, …")]
Seed = Annotated[int, typer.Option("--seed")]
Template = Annotated[
    str,
    typer.Option("--template", help="A set of prompts (sound-of, laion, msclap, plain, instrument, ensemble) or your own text with {}."),
]
Folds = Annotated[
    str,
    typer.Option(
        "--folds", help="official (the dataset's own; else stratified, keeping speakers and recordings together) or stratified (random)."
    ),
]
Seconds = Annotated[float | None, typer.Option("--seconds", help="Window length of encoders that let one choose (Whisper).")]
Crop = Annotated[str | None, typer.Option("--crop", help="start, centre or windows (several windows, averaged); default: start.")]
Pad = Annotated[str | None, typer.Option("--pad", help="repeatpad, repeat or pad; default: the checkpoint's own.")]
Fast = Annotated[bool, typer.Option("--fast/--no-fast", help="Run HTS-AT's attention fused: the same numbers to rounding, in less time.")]

Units = Annotated[
    str,
    typer.Option(
        "--units",
        help='What to reweight: heads, blocks or stages (attention writes), mlps, embedding; with stages, blocks or labels: "S2 S3 heads".',
    ),
]
BasisLevel = Annotated[str, typer.Option("--level", help="PCA of all tokens (token) or of each clip's mean (clip).")]
Kept = Annotated[
    str | None, typer.Option("--kept", help="Axes with a gain: a number, or a share of the variance such as 0.99; default: all.")
]
Start = Annotated[
    float | None,
    typer.Option(
        "--start", help="Gains start at one on the axes that explain this share of the variance, at zero elsewhere (seeds: 0.95)."
    ),
]
Mean = Annotated[str, typer.Option("--mean", help="keep (gains of one change nothing) or drop (as in the papers).")]
ObjectiveName = Annotated[str, typer.Option("--objective", help="prompts, centroid, both; auto: prompts where there is a text side.")]
LogitScale = Annotated[
    float | None, typer.Option("--logit-scale", help="Scale of the cosines; default: the model's own (1 as in the seeds).")
]
Epochs = Annotated[int, typer.Option("--epochs", min=1)]
Patience = Annotated[int, typer.Option("--patience", min=1, help="Epochs without a better stopping accuracy.")]
Rate = Annotated[float, typer.Option("--rate", help="Learning rate; 0 looks for one.")]
Optimiser = Annotated[str, typer.Option("--optimiser", help="adamw, adam or schedulefree.")]
Decay = Annotated[float, typer.Option("--decay", min=0.0, help="Pull of the gains towards one.")]
Sparsity = Annotated[float, typer.Option("--l1", min=0.0, help="Pull of the gains towards zero (L1).")]
TrainingBatch = Annotated[int, typer.Option("--batch-size", min=1, help="Clips a step.")]
BasisFrom = Annotated[
    str, typer.Option("--basis", help="own (a part of the clips), or the folder of another extraction: a transferred basis.")
]
TopHeads = Annotated[
    int | None,
    typer.Option("--top-heads", min=1, help="How many heads --by chooses, and the method top-heads keeps; default: 20, at most half."),
]
By = Annotated[
    str | None,
    typer.Option("--by", help="Gains only for the best heads of --units: by fisher, ablation or text, judged on the training part."),
]


def number(text: str | None) -> int | float | None:
    """``"16"`` → 16, ``"0.99"`` → 0.99."""
    if text is None:
        return None
    try:
        return int(text) if "." not in text else float(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is neither a number of axes nor a share") from error


def training(epochs: int, patience: int, rate: float, optimiser: str, seed: int, decay: float, l1: float, batch_size: int) -> Training:
    from ..adaptation.train import Training

    if optimiser not in ("adamw", "adam", "schedulefree"):
        raise typer.BadParameter(f"{optimiser!r} is none of adamw, adam, schedulefree")
    kind: Any = optimiser
    return Training(
        epochs=epochs, patience=patience, rate=rate or None, optimiser=kind, seed=seed, decay=decay, l1=l1, batch_size=batch_size
    )


def open_model(model: str, device: str, **choices: Any) -> Encoder:
    """Load an encoder quietly; say that it takes a moment when it does."""
    from transformers.utils import logging

    from ..models import load_encoder
    from .screen import errors

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if not errors.is_terminal:
        return load_encoder(model, device, **choices)
    with errors.status(f"opening {model} …"):
        return load_encoder(model, device, **choices)


def open_dataset(dataset: str, root: Path | None, download: bool, limit: int | None) -> Dataset:
    from ..data import load_dataset

    loaded = load_dataset(dataset, root=root, download=download)
    return loaded if limit is None else loaded.limited(limit)
