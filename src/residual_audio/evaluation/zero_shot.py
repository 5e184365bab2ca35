"""Classify a dataset with an encoder as it is, by any classifier: prompts, or class centroids where there is no text side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Float
from torch import Tensor

from ..data import Dataset
from ..data.prompts import DEFAULT_TEMPLATE
from ..models import Encoder
from ..results import Result, provenance
from ..spelling import printable
from ..writing import drafted
from .classifier import choose_classifier
from .directions import class_directions
from .embedding import embed_readable
from .folds import with_folds
from .metrics import Outcome, confusion, outcome, per_class_mean, top_k
from .significance import Interval, class_intervals, macro_interval, mean_interval


@dataclass(frozen=True)
class ZeroShotResult(Result):
    """Scores of the clips that could be read, in the dataset's order, and what went wrong with the others.

    ``dataset``: the clips that could be read, with folds; ``asked``: all that were asked for; ``made_by``: model, data and settings.
    """

    record: ClassVar[str] = "run"

    dataset: Dataset
    classifier: str
    scores: Float[Tensor, "clip class"]
    errors: dict[str, str]
    seed: int
    asked: Dataset
    made_by: dict[str, Any]

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        return {"classes": self.per_class(), "confusion": self.confusion(), "folds": self.per_fold()}

    @property
    def info(self) -> dict[str, Any]:
        return {
            **self.made_by,
            "result": {name: interval._asdict() for name, interval in self.summary().items()},
            "clips": {"used": len(self.dataset), "errors": len(self.errors)},
            "classes_left_out": sorted(set(self.asked.labels) - set(self.dataset.labels)),
        }

    def write(self, folder: str | Path) -> Path:
        """Beside the tables and ``run.json``, ``clips.parquet``: every clip with its status. ``run.json`` comes last."""
        rows = [
            {
                "id": c.id,
                "path": printable(c.path),
                "label": c.label,
                "fold": c.fold,
                "group": c.own_group,
                "status": "error" if c.id in self.errors else "ok",
                "error": self.errors.get(c.id, ""),
            }
            for c in self.asked.clips
        ]
        with drafted(Path(folder) / "clips.parquet") as path:
            pd.DataFrame(rows).to_parquet(path, index=False)
        return super().write(folder)

    @property
    def outcome(self) -> Outcome:
        return outcome(self.scores.cpu().numpy(), self.dataset.targets)

    def summary(self) -> dict[str, Interval]:
        """Top-1, top-5 and macro accuracy with 95 % intervals over groups."""
        result, groups = self.outcome, self.dataset.groups
        five = min(5, result.classes)
        return {
            "top1": mean_interval(result.correct, groups, seed=self.seed),
            f"top{five}": mean_interval(top_k(result, five), groups, seed=self.seed),
            "macro": macro_interval(result.correct, result.targets, result.classes, groups, seed=self.seed),
        }

    def per_class(self) -> pd.DataFrame:
        """Accuracy by class with Wilson's 95 % interval, in which clips of one group count for fewer."""
        result, data = self.outcome, self.dataset
        accuracy, low, high = class_intervals(result.correct, result.targets, len(data.labels), data.groups)
        rows = []
        for i, label in enumerate(data.labels):
            own = result.targets == i
            wrong = result.predicted[own & ~result.correct]
            rival = int(np.bincount(wrong).argmax()) if len(wrong) else -1
            rows.append(
                {
                    "label": label,
                    "prompt_name": data.names[label],
                    "clips": int(own.sum()),
                    "accuracy": accuracy[i],
                    "low": low[i],
                    "high": high[i],
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
    *,
    classifier: str = "auto",
    template: str | None = None,
    folds: str = "official",
    batch_size: int = 16,
    workers: int | None = None,
    seed: int = 0,
    advance: Callable[[int], object] | None = None,
) -> ZeroShotResult:
    """Score every readable clip against every class. Broken clips are left out and listed in ``errors``, and with them classes of which
    no clip could be read.

    ``classifier``: one of :data:`.classifier.CLASSIFIERS`, or ``auto``: prompts where the encoder has a text side, else centroids.
    ``template``: the prompts (by default ``sound-of``), for classifiers that read them.
    """
    chosen = choose_classifier(classifier, encoder, template)
    # Prompts first: a missing tokenizer should be told before an hour of audio is encoded.
    directions = class_directions(encoder, dataset, template).cpu() if chosen.reads_text(encoder) else None
    readable, embeddings, errors = embed_readable(encoder, dataset, batch_size, workers, advance)
    directions = None if directions is None else directions[dataset.rows_of(readable.labels)]
    readable, embeddings = with_folds(readable, folds, seed), embeddings.cpu()
    scores = chosen.fit_folds(embeddings, readable, directions, encoder.logit_scale, seed).scores(embeddings)
    settings = {
        "classifier": chosen.name,
        **({"template": template or DEFAULT_TEMPLATE} if directions is not None else {}),
        "folds": folds,
        "limit": dataset.notes.get("limit"),
        "batch_size": batch_size,
        "seed": seed,
    }
    made_by = {**provenance(encoder, dataset), "settings": settings}
    return ZeroShotResult(readable, chosen.name, scores, errors, seed, asked=dataset, made_by=made_by)
