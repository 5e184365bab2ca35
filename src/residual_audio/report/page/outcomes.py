"""Comparisons of methods, and what each method chose for every clip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import load_file

from ...evaluation.metrics import outcome
from ...evaluation.paired import against_first
from ...extraction import Run
from .pack import digits

SUMMARY = ("trained", "accuracy", "std", "low", "high", "seconds")


def is_comparison(folder: Path) -> bool:
    return (folder / "tables" / "comparison_summary.parquet").exists()


def comparison(folder: Path) -> dict[str, Any]:
    """The summary and the paired tests that `residual-audio compare` wrote."""
    summary = pd.read_parquet(folder / "tables" / "comparison_summary.parquet")
    paired = folder / "tables" / "comparison_paired.parquet"
    p = against_first(pd.read_parquet(paired)) if paired.exists() else pd.DataFrame()
    record = json.loads((folder / "comparison.json").read_text()) if (folder / "comparison.json").exists() else {}
    rows = []
    for _, row in summary.iterrows():
        one = {"method": str(row["method"]), **dict(zip(SUMMARY, digits(row.get(k, np.nan) for k in SUMMARY), strict=True))}
        if row["method"] in p.index:
            test = p.loc[row["method"]]
            names = ("difference", "low", "high", "p_holm")
            one |= dict(zip(("difference", "difference_low", "difference_high", "p"), digits(test[n] for n in names), strict=True))
        rows.append(one)
    data = record.get("dataset", {})
    return {
        "name": folder.name,
        "model": record.get("model", {}).get("name", ""),
        "dataset": data.get("name", ""),
        "clips": data.get("clips"),
        "baseline": rows[0]["method"] if rows else "",
        "rows": rows,
        "command": record.get("command", ""),
    }


def same_clips(dataset: dict[str, Any]) -> dict[str, Any]:
    """What tells data sets apart, without the digest of file times, which an extraction keeps clip by clip."""
    return {name: value for name, value in dataset.items() if name != "files"}


def predictions(folder: Path, run: Run, targets: np.ndarray) -> dict[str, list[int]]:
    """Per method, the class chosen for each clip of the run by a model that did not see it (first repeat); empty for other clips.

    A comparison knows its clips by number, so the datasets must be the same, to the clip.
    """
    record = folder / "comparison" / "run.json"
    if not record.exists() or same_clips(json.loads(record.read_text())["dataset"]) != same_clips(run.info["dataset"]):
        return {}
    chosen: dict[str, np.ndarray] = {}
    for path in sorted((folder / "comparison" / "cells").glob("*-repeat0.safetensors")):
        method = path.name.rsplit("-fold", 1)[0]
        arrays = load_file(path)
        rows = arrays["test"]
        if rows.max(initial=-1) >= len(targets):
            return {}
        chosen.setdefault(method, np.full(len(targets), -1))[rows] = outcome(arrays["scores"], targets[rows]).predicted
    summary = pd.read_parquet(folder / "tables" / "comparison_summary.parquet")["method"]
    return {m: chosen[m].tolist() for m in summary if m in chosen and (chosen[m] >= 0).all()}
