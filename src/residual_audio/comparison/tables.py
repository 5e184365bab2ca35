"""The tables of a comparison, from its finished cells alone.

One weighting throughout: accuracy, its interval and every difference are means over all test clips, pooled over folds; repeats are averaged
clip by clip. The mean over folds and its standard deviation (n − 1) have columns of their own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from safetensors import safe_open

from ..data import Dataset
from ..evaluation.metrics import outcome
from ..evaluation.paired import MARGIN, paired_table
from ..evaluation.significance import mean_interval
from ..extraction.store import Store


def gather(
    store: Store, names: Sequence[str], dataset: Dataset, methods: Sequence[str], repeats: int, seed: int, margin: float = MARGIN
) -> dict[str, pd.DataFrame]:
    """``comparison_cells``, ``comparison_summary`` and ``comparison_paired``; ``names``: the cells, ``dataset``: the clips in folds."""
    rows = []
    targets = dataset.targets
    correct = {m: np.zeros(len(targets)) for m in methods}
    for name in names:
        with safe_open(store.reading(name), "pt") as file:
            facts, (method, fold, repeat) = json.loads(file.metadata()["facts"]), json.loads(file.metadata()["cell"])
            scores, test = file.get_tensor("scores").numpy(), file.get_tensor("test").numpy()
        right = outcome(scores, targets[test]).correct
        correct[method][test] += right / repeats
        rows.append({"method": method, "fold": fold, "repeat": repeat, "clips": len(test), "accuracy": float(right.mean()), **facts})
    cells = pd.DataFrame(rows)
    summary = [summary_row(method, cells[cells.method == method], correct[method], dataset.groups, seed) for method in methods]
    paired = paired_table(correct, np.array([c.fold for c in dataset.clips]), dataset.groups, margin, seed)
    return {"comparison_cells": cells, "comparison_summary": pd.DataFrame(summary), "comparison_paired": paired}


def summary_row(method: str, cells: pd.DataFrame, correct: np.ndarray, groups: Sequence[str], seed: int) -> dict[str, Any]:
    """Accuracy over clips with its interval over groups; mean and spread over folds; what it cost."""
    interval = mean_interval(correct, groups, seed=seed)
    by_fold = cells.groupby("fold").accuracy.mean()
    return {
        "method": method,
        "trained": int(cells.trained.max()),
        "accuracy": interval.value,
        "low": interval.low,
        "high": interval.high,
        "fold_mean": float(by_fold.mean()),
        "std": float(by_fold.std()),
        "seconds": float(cells.seconds.mean()),
        "peak_mb": float(cells.peak_mb.max()),
        "labels": float(cells.labels.mean()) if "labels" in cells else float("nan"),
        **({"other": float(cells.other.mean())} if "other" in cells and cells.other.notna().any() else {}),
    }
