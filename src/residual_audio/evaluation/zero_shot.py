"""Classify a dataset with an encoder as it is: by prompts, or by class centroids where there is no text side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from ..data import Dataset
from ..data.prompts import templates
from ..media import MediaError
from ..models import Encoder
from .classifiers import prompt_directions
from .folds import with_folds
from .metrics import Outcome, confusion, outcome, per_class_mean, top_k
from .readout import EvaluationError, centroid_readout
from .significance import Interval, macro_interval, mean_interval


@dataclass(frozen=True)
class ZeroShotResult:
    """Scores of the clips that could be read, in the dataset's order, and what went wrong with the others."""

    dataset: Dataset
    classifier: str
    scores: Float[Tensor, "clip class"]
    errors: dict[str, str]
    seed: int = 0

    @property
    def outcome(self) -> Outcome:
        return outcome(self.scores.cpu().numpy(), self.dataset.targets)

    def summary(self) -> dict[str, Interval]:
        """Top-1, top-5 and macro accuracy with 95 % intervals."""
        result = self.outcome
        five = min(5, result.classes)
        return {
            "top1": mean_interval(result.correct, seed=self.seed),
            f"top{five}": mean_interval(top_k(result, five), seed=self.seed),
            "macro": macro_interval(result.correct, result.targets, result.classes, seed=self.seed),
        }

    def per_class(self) -> pd.DataFrame:
        result, data = self.outcome, self.dataset
        rows = []
        for i, label in enumerate(data.labels):
            mine = result.targets == i
            wrong = result.predicted[mine & ~result.correct]
            rival = int(np.bincount(wrong).argmax()) if len(wrong) else -1
            interval = mean_interval(result.correct[mine], seed=self.seed)
            rows.append(
                {
                    "label": label,
                    "prompt_name": data.names[label],
                    "clips": int(mine.sum()),
                    "accuracy": interval.value,
                    "low": interval.low,
                    "high": interval.high,
                    "most_confused_with": data.labels[rival] if rival >= 0 else "",
                }
            )
        return pd.DataFrame(rows)

    def confusion(self) -> pd.DataFrame:
        labels = list(self.dataset.labels)
        return pd.DataFrame(confusion(self.outcome), index=pd.Index(labels, name="true"), columns=labels)

    def per_fold(self) -> pd.DataFrame:
        """Accuracy within each fold; empty when the dataset has no folds."""
        folds, correct = np.array([c.fold for c in self.dataset.clips]), self.outcome.correct
        numbers, position = np.unique(folds[folds >= 0], return_inverse=True)
        accuracy = per_class_mean(correct[folds >= 0], position, len(numbers)) if len(numbers) else np.zeros(0)
        return pd.DataFrame({"fold": numbers, "clips": [int((folds == f).sum()) for f in numbers], "accuracy": accuracy})


def zero_shot(
    encoder: Encoder,
    dataset: Dataset,
    template: str = "sound-of",
    classifier: str = "auto",
    folds: str = "official",
    batch_size: int = 16,
    workers: int | None = None,
    seed: int = 0,
    advance: Callable[[int], object] | None = None,
) -> ZeroShotResult:
    """Score every readable clip against every class. Broken clips are left out and listed in ``errors``.

    ``classifier``: ``prompts``, ``centroid``, or ``auto``: prompts where the encoder has a text side.
    """
    if classifier == "auto":
        classifier = "prompts" if encoder.has_text else "centroid"
    if classifier not in ("prompts", "centroid"):
        raise EvaluationError(f"unknown classifier {classifier!r}; one of auto, prompts, centroid")
    # Prompts first: a missing tokenizer should be told before an hour of audio is encoded.
    directions = (
        prompt_directions(encoder, [dataset.names[x] for x in dataset.labels], templates(template)) if classifier == "prompts" else None
    )
    outcomes = encoder.embed_outcomes([c.source for c in dataset.clips], batch_size, workers, advance)
    errors = {c.id: str(o) for c, o in zip(dataset.clips, outcomes, strict=True) if isinstance(o, MediaError)}
    vectors = [o for o in outcomes if isinstance(o, Tensor)]
    if not vectors:
        first = next(iter(errors.values()), "the dataset is empty")
        raise EvaluationError(f"{dataset.name}: none of {len(dataset)} clips could be read; the first error: {first}")
    readable = with_folds(replace(dataset, clips=tuple(c for c in dataset.clips if c.id not in errors)), folds, seed)
    embeddings = torch.stack(vectors)
    scores = centroid_readout(embeddings.cpu(), readable).scores(embeddings.cpu()) if directions is None else embeddings @ directions.T
    return ZeroShotResult(readable, classifier, scores, errors, seed)
