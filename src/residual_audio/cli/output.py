"""The directory that a verb leaves behind: run.json, clips.parquet, tables/."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from .. import __version__
from ..data import Dataset
from ..evaluation import ZeroShotResult
from ..models import Encoder
from ..report.tables import write_table


def provenance(encoder: Encoder, dataset: Dataset, settings: dict[str, Any]) -> dict[str, Any]:
    """Everything needed to run it again: command, settings, versions, model revision, preprocessing, data."""
    return {
        **circumstances(),
        "settings": settings,
        "model": {"name": encoder.name, "revision": encoder.revision},
        "preprocessing": {**asdict(encoder.policy), "hash": encoder.policy.hash},
        "dataset": {
            "name": dataset.name,
            "clips": len(dataset),
            "classes": len(dataset.labels),
            "folds": dataset.folds,
            "notes": dataset.notes,
        },
    }


def circumstances() -> dict[str, Any]:
    """What was called, when, with which versions."""
    packages = ("torch", "transformers", "numpy", "scipy", "soundfile", "soxr")
    return {
        "command": shlex.join(["residual-audio", *sys.argv[1:]]),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"residual-audio": __version__, "python": platform.python_version(), **{p: version(p) for p in packages}},
    }


def write_zero_shot(folder: Path, encoder: Encoder, dataset: Dataset, result: ZeroShotResult, settings: dict[str, Any]) -> None:
    """A zero-shot evaluation with all of its tables."""
    record = provenance(encoder, dataset, settings)
    record["result"] = {name: interval._asdict() for name, interval in result.summary().items()}
    record["clips"] = {"used": len(result.dataset), "errors": len(result.errors)}
    tables = {"classes": result.per_class(), "confusion": result.confusion(), "folds": result.per_fold()}
    write_run(folder, record, dataset, result.errors, tables)


def write_run(folder: Path, record: dict[str, Any], dataset: Dataset, errors: dict[str, str], tables: dict[str, pd.DataFrame]) -> None:
    """Write the directory; run.json comes last, under a temporary name first, so that its presence means it is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "id": c.id,
            "path": c.path,
            "label": c.label,
            "fold": c.fold,
            "status": "error" if c.id in errors else "ok",
            "error": errors.get(c.id, ""),
        }
        for c in dataset.clips
    ]
    pd.DataFrame(rows).to_parquet(folder / "clips.parquet", index=False)
    for name, table in tables.items():
        write_table(table, folder / "tables", name)
    write_record(folder / "run.json", record)


def write_record(path: Path, record: dict[str, Any]) -> None:
    """JSON with the circumstances, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.tmp")
    draft.write_text(json.dumps({**circumstances(), **record}, indent=2, default=str) + "\n")
    os.replace(draft, path)
