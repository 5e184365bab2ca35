"""The tables of a comparison, from its finished cells alone.

One weighting throughout: accuracy, its interval and every difference are means over all test clips, pooled over folds; repeats are averaged
clip by clip. The mean over folds and its standard deviation (n − 1) have columns of their own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from safetensors import safe_open

from ..adaptation.train import training_table
from ..data import Dataset
from ..evaluation.metrics import outcome
from ..evaluation.paired import MARGIN, paired_table
from ..evaluation.significance import mean_interval, mean_intervals
from ..extraction.store import Store, StoreError
from .elsewhere import harmonic
from .rows import OWN, Row
from .strength import strength_table


def gather(
    store: Store,
    names: Sequence[str],
    dataset: Dataset,
    lines: Sequence[Row],
    repeats: int,
    seed: int,
    margin: float = MARGIN,
    novel: Dataset | None = None,
    other: Dataset | None = None,
) -> dict[str, pd.DataFrame]:
    """``comparison_cells``, ``comparison_summary``, ``comparison_paired``; where something was trained ``comparison_training``, epoch by
    epoch; of several strengths ``comparison_strength``; of a second dataset ``comparison_elsewhere``, methods paired on its clips.

    ``names``: the cells, ``dataset``: the clips in folds, ``novel``: those of classes that nothing was adapted to, ``other``: those of the
    second dataset.
    """
    rows, curves, trainings = [], [], dict[tuple[str, int, int], pd.DataFrame]()
    targets, parts = dataset.targets, {line.name: {"adaptation": line.method, "classifier": line.classifier} for line in lines}
    correct = {name: np.zeros(len(targets)) for name in parts}
    folds = np.array([c.fold for c in novel.clips]) if novel is not None else np.zeros(0)
    unseen = {name: np.zeros(len(folds)) for name in parts}
    left: dict[str, dict[tuple[int, int], np.ndarray]] = {line.method: {} for line in lines}
    for name in names:
        with safe_open(store.reading(name), "pt") as file:
            facts, (method, fold, repeat) = json.loads(file.metadata()["facts"]), json.loads(file.metadata()["cell"])
            history = json.loads(file.metadata()["history"])
            scores, test = file.get_tensor("scores").numpy(), file.get_tensor("test").numpy()
        right = outcome(scores, targets[test]).correct
        correct[method][test] += right / repeats
        if (found := facts.pop("novel_right", None)) is not None:
            unseen[method][folds == fold] += np.array(found) / repeats
        if (found := facts.pop("other_right", None)) is not None:
            left[parts[method]["adaptation"]][fold, repeat] = np.array(found, dtype=float)
        if history:  # of several classifiers of one method the same
            adapted = parts[method]["adaptation"]
            where = pd.DataFrame({"method": adapted, "fold": fold, "repeat": repeat}, index=range(len(history)))
            trainings[adapted, fold, repeat] = pd.concat([where, training_table(history)], axis=1)
        curves.append((method, fold, repeat, len(test), facts.pop("curve", [])))
        measured = {"clips": len(test), "accuracy": float(right.mean()), **facts}
        rows.append({"method": method, **parts[method], "fold": fold, "repeat": repeat, **measured})
    cells = pd.DataFrame(rows)
    summary = [
        {"method": name, **parts[name], **summary_row(cells[cells.method == name], correct[name], dataset.groups, seed)} for name in parts
    ]
    if novel is not None:
        summary = [{**row, **novel_columns(row, unseen[row["method"]], novel.groups, seed)} for row in summary]
    paired = paired_table(correct, np.array([c.fold for c in dataset.clips]), dataset.groups, margin, seed)
    tables = {"comparison_cells": cells, "comparison_summary": pd.DataFrame(summary), "comparison_paired": paired}
    if trainings:
        tables["comparison_training"] = pd.concat(trainings.values(), ignore_index=True)
    # Cells of an earlier version do not say which clips were right there.
    known = {name: list(of.values()) for name, of in left.items() if len(of) == cells.fold.nunique() * repeats}
    if other is not None and len(known) > 1:
        tables["comparison_elsewhere"] = differences_elsewhere(known, other.groups, seed)
    strengths = strength_table(curves)
    return {**tables, "comparison_strength": strengths} if len(strengths) else tables


def summary_row(cells: pd.DataFrame, correct: np.ndarray, groups: Sequence[str], seed: int) -> dict[str, Any]:
    """Accuracy over clips with its interval over groups; mean and spread over folds; what it cost."""
    interval = mean_interval(correct, groups, seed=seed)
    by_fold = cells.groupby("fold").accuracy.mean()
    return {
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


def differences_elsewhere(right: dict[str, list[np.ndarray]], groups: Sequence[str], seed: int) -> pd.DataFrame:
    """Every method against every one before it on the same clips of the second dataset, right or wrong as a mean over what was learned in
    the folds; intervals over groups."""
    if any(len(one) != len(groups) for rights in right.values() for one in rights):
        raise StoreError("the second dataset has other clips than when this comparison was begun; use another --out")
    kept = {name: np.mean(rights, axis=0) for name, rights in right.items()}
    pairs = list(combinations(kept, 2))
    intervals = mean_intervals(np.stack([kept[name] - kept[against] for against, name in pairs], 1), groups, seed=seed)
    named = pd.DataFrame([(name, against) for against, name in pairs], columns=["method", "against"])
    return named.assign(**dict(zip(("difference", "low", "high"), intervals, strict=True)))


def novel_columns(row: dict[str, Any], correct: np.ndarray, groups: Sequence[str], seed: int) -> dict[str, float]:
    """Accuracy on classes that nothing was adapted to, with its interval, and its harmonic mean with that on the base classes.

    A method that leaves no encoder cannot be asked.
    """
    if row["classifier"] == OWN:
        return dict.fromkeys(("novel", "novel_low", "novel_high", "harmonic"), float("nan"))
    interval = mean_interval(correct, groups, seed=seed)
    ends = {"novel": interval.value, "novel_low": interval.low, "novel_high": interval.high}
    return {**ends, "harmonic": harmonic(row["accuracy"], interval.value)}
