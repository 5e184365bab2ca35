"""Options that several verbs share, described once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..data import AudioDataset
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
        metavar="DATASET", help="A dataset name, `folder:PATH`, a CSV/Parquet file or `hf:REPO`; see `residual-audio datasets`."
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


def open_dataset(dataset: str, root: Path | None, download: bool, limit: int | None) -> AudioDataset:
    from ..data import load_dataset

    loaded = load_dataset(dataset, root=root, download=download)
    return loaded if limit is None else loaded.limited(limit)
