"""What adapting costs elsewhere: accuracy of the adapted encoder on clips and classes that it was not adapted to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from ..adaptation.task import Adaptation, FoldTask, Setting
from ..data import Dataset
from ..evaluation import CLASSIFIERS, EvaluationError
from ..evaluation.folds import Parts
from ..evaluation.metrics import outcome
from ..models import Encoder


def base_and_novel(dataset: Dataset, encoder: Encoder) -> tuple[Dataset, Dataset]:
    """The first half of the classes, rounded up, and the others; clips keep their folds."""
    if not encoder.has_text:
        raise EvaluationError(f"novel classes are known by their prompts alone, and {encoder.name} has no text side; leave out --novel")
    if len(dataset.labels) < 4:
        raise EvaluationError(f"{dataset.name} has {len(dataset.labels)} classes; base and novel ones need at least two each")
    base = set(dataset.labels[: -(-len(dataset.labels) // 2)])
    return dataset.only(lambda c: c.label in base, "base classes"), dataset.only(lambda c: c.label not in base, "novel classes")


def right_elsewhere(setting: Setting, learned: Adaptation) -> np.ndarray:
    """Which clips of a setting the adapted encoder classifies rightly: by prompts; without a text side, by the centroids of the classes in
    the other folds."""
    assert learned.embed is not None
    embeddings = learned.embed(setting)
    if setting.directions is not None:
        return outcome((F.normalize(embeddings, dim=-1) @ setting.directions.T).numpy(), setting.dataset.targets).correct
    targets, folds, rows = torch.from_numpy(setting.dataset.targets), np.array([c.fold for c in setting.dataset.clips]), setting.rows
    right = np.zeros(len(rows), dtype=bool)
    for fold in np.unique(folds):
        test, rest = rows[folds == fold], rows[folds != fold]
        task = FoldTask(setting, targets, Parts(basis=rest[:0], train=rest, stop=rest[:0], test=test), seed=0)
        right[test] = outcome(task.scores(embeddings, CLASSIFIERS["centroids"]).numpy(), setting.dataset.targets[test]).correct
    return right


@dataclass(frozen=True)
class Elsewhere:
    """``other``: a second dataset. ``novel``: the classes of the same dataset that nothing is adapted to; a clip is tested in its own fold,
    so that the other clips of its group were not learned from."""

    other: Setting | None = None
    novel: Setting | None = None

    def measured(self, learned: Adaptation, fold: int) -> dict[str, Any]:
        """Accuracy on each; ``other_right``: of every clip of the second dataset; ``novel_right``: of every novel clip of the fold,
        ``novel_clips`` in number."""
        facts: dict[str, Any] = {}
        if learned.embed is None:
            return facts
        if self.other is not None:
            right = right_elsewhere(self.other, learned)
            facts |= {"other": float(right.mean()), "other_right": right.astype(int).tolist()}
        if self.novel is not None:
            right = right_elsewhere(self.novel, learned)[[c.fold == fold for c in self.novel.dataset.clips]]
            facts |= {"novel": float(right.mean()) if len(right) else float("nan"), "novel_clips": len(right)}
            facts["novel_right"] = right.astype(int).tolist()
        return facts


def in_short(measured: dict[str, Any]) -> dict[str, float]:
    """What was measured, without the clips one by one."""
    return {name: value for name, value in measured.items() if not isinstance(value, list)}


def harmonic(base: float, novel: float) -> float:
    """The harmonic mean: high only where both are."""
    return 2 * base * novel / (base + novel) if base + novel > 0 else 0.0
