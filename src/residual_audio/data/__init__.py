"""Datasets as rows of clips: one function opens all of them, by name or by path."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from . import esc50, folder, hub, irmas, synthetic_dataset, table, tinysol, vocalsound
from .clip import Clip, DataError, Dataset, clean_label, grouped_folds, make_dataset, stratified_folds
from .origin import Origin
from .prompts import TEMPLATES, fill, templates

__all__ = [
    "KNOWN",
    "TEMPLATES",
    "Clip",
    "DataError",
    "Dataset",
    "clean_label",
    "default_root",
    "fill",
    "grouped_folds",
    "load_dataset",
    "make_dataset",
    "stratified_folds",
    "templates",
]

# What may be asked for, in one line each.
KNOWN: dict[str, str] = {
    "esc50": "ESC-50: 2,000 environmental sounds, 50 classes, 5 official folds",
    "esc10": "ESC-10: the 400 clips of ESC-50 in 10 selected classes",
    "tinysol": "TinySOL: 2,913 notes of 14 orchestral instruments, 5 official folds",
    "vocalsound": "VocalSound: 21,024 vocal sounds in 6 classes, official split by speaker (subset=1200 draws a part)",
    "irmas": "IRMAS, training part: 6,705 excerpts of music, 11 predominant instruments",
    "synthetic": "synthesised on the fly: the classes that `tiny` was trained on, in new takes",
    "synthetic-timbre": "synthesised on the fly: instruments by colour and attack, unknown to `tiny`",
    "synthetic-voice": "synthesised on the fly: ways to use a voice, unknown to `tiny`",
    "synthetic-captions": "synthesised on the fly: 200 sounds with every caption that is true of them, for retrieval",
    "folder:PATH": "your own recordings, PATH/LABEL/x.wav",
    "table:PATH": "your own CSV or Parquet with the columns path and label (and id, fold, caption)",
    "hf:REPO[:SPLIT]": "a dataset of the Hugging Face hub with audio and labels",
}

# On disk: where it comes from, who reads it, and whose folder it lies in.
ON_DISK: dict[str, tuple[Origin, Callable[..., Dataset], str]] = {
    "esc50": (esc50.ORIGIN, esc50.load, "esc50"),
    "esc10": (esc50.ORIGIN, partial(esc50.load, subset="esc10"), "esc50"),
    "tinysol": (tinysol.ORIGIN, tinysol.load, "tinysol"),
    "vocalsound": (vocalsound.ORIGIN, vocalsound.load, "vocalsound"),
    "irmas": (irmas.ORIGIN, irmas.load, "irmas"),
}
SYNTHETIC: dict[str, Callable[..., Dataset]] = {
    "synthetic": partial(synthetic_dataset.load, "source"),
    "synthetic-timbre": partial(synthetic_dataset.load, "timbre"),
    "synthetic-voice": partial(synthetic_dataset.load, "voice"),
    "synthetic-captions": synthetic_dataset.load_captioned,
}


def default_root(name: str) -> Path:
    """Where a dataset is looked for when no root is given: ``$RESIDUAL_AUDIO_DATA/NAME``, or in the user's cache."""
    return Path(os.environ.get("RESIDUAL_AUDIO_DATA") or "~/.cache/residual-audio/data").expanduser() / name


def load_dataset(name: str, root: str | Path | None = None, download: bool = False, **options: Any) -> Dataset:
    """Open a dataset by a name of :data:`KNOWN`, or by the path of a folder, a CSV or a Parquet file.

    ``root`` is the folder the dataset lies in (for ``hf:`` the folder for its audio, for a relative path the folder it starts from;
    synthetic sounds need none). With ``download`` a known dataset that is not there is fetched first. Further options go to
    the loader: ``load_dataset("vocalsound", subset=1200)``.
    """
    kind, _, rest = name.partition(":")
    if name in SYNTHETIC:
        return SYNTHETIC[name](**options)
    if name in ON_DISK:
        origin, load, home = ON_DISK[name]
        root = default_root(home) if root is None else root
        if download:
            origin.ensure(root)
        return load(root, **options)
    if kind == "hf" and rest:
        return hub.load(rest, default_root("hf") if root is None else root, **options)
    path = Path(root or ".").expanduser() / Path(rest if kind in ("folder", "table") and rest else name).expanduser()
    if kind == "table" or path.suffix.lower() in (".csv", ".parquet"):
        return table.load(path, **options)
    if kind == "folder" or path.is_dir():
        return folder.load(path, **options)
    near = difflib.get_close_matches(name, KNOWN, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(near)}?" if near else "."
    raise DataError(f"no dataset {name!r}{hint} Known are {', '.join(KNOWN)}, or the path of a folder, a CSV or a Parquet file")
