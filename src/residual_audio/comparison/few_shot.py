"""Accuracy against the number of clips per class: one comparison per point, all on the same test folds; resumable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ..adaptation.prepare import prepare
from ..adaptation.recipe import Recipe
from ..data import Dataset
from ..evaluation import EvaluationError
from ..evaluation.folds import fold_parts
from ..models import Encoder
from ..progress import progress
from ..results import Result
from ..writing import own_folder
from .compare import Comparison, compare
from .protocol import FEW_SHOT, Protocol, bare

ALL = "all"
# Said wherever the numbers are shown.
NOTE = "N clips per class in all, for every method; a quarter of them (at least one of two) says when to stop"


@dataclass(frozen=True)
class FewShot(Result):
    """``few_shot``: one row per method, classifier and point, in the order asked for; ``comparisons``: what each point came from."""

    record: ClassVar[str] = "few_shot"
    tables: dict[str, pd.DataFrame]
    info: dict[str, Any]
    errors: dict[str, str]
    comparisons: dict[str, Comparison]

    @property
    def curve(self) -> pd.DataFrame:
        return self.tables["few_shot"]


def parse_shots(text: str) -> list[int | None]:
    """``"1,2,4,all"`` → ``[1, 2, 4, None]``; rising, and each once."""
    shots: set[int | None] = set()
    for word in (w.strip() for w in text.split(",") if w.strip()):
        if word != ALL and not (word.isascii() and word.isdigit() and int(word) > 0):
            raise EvaluationError(f"shots: {word!r} is neither a number of clips per class nor {ALL!r}, as in 1,2,4,8,16,{ALL}")
        shots.add(None if word == ALL else int(word))
    if not shots:
        raise EvaluationError(f"shots: none given; name some, as in 1,2,4,8,16,{ALL}")
    return sorted(shots, key=lambda n: float("inf") if n is None else n)


def clips_used(dataset: Dataset, shots: int | None, seed: int, repeats: int) -> dict[str, float]:
    """Clips per class, on average over classes, folds and repeats: learned from (``train``) and seen at all outside the test (``seen``)."""
    parts = [p for repeat in range(repeats) for _, p in fold_parts(dataset, seed + repeat, shots)]
    classes = len(dataset.labels)
    return {
        "train": float(np.mean([len(p.train) for p in parts])) / classes,
        "seen": float(np.mean([len(p.seen) for p in parts])) / classes,
    }


def few_shot(
    encoder: Encoder,
    dataset: Dataset,
    out: str | Path,
    methods: Sequence[str] = FEW_SHOT,
    recipe: Recipe = Recipe(),
    protocol: Protocol = Protocol(),
    *,
    shots: Sequence[int | None] = (1, 2, 4, 8, 16, None),
    workers: int | None = None,
    advance: Callable[[int], object] | None = None,
    tell: Callable[[str], object] | None = None,
) -> FewShot:
    """Compare ``methods``, named as in `compare`, with N clips per class in all, for every N of ``shots`` (None: all outside the test).

    Point N is a comparison in ``out/shots-N``: the same call resumes. The test folds are whole and the same everywhere; points differ
    only in the clips that may be used for the basis, for training and for stopping (``evaluation/folds.py``).
    """
    recipe.check(bare(methods))
    comparisons: dict[str, Comparison] = {}
    rows = []
    setting = prepare(
        encoder, dataset, bare(methods), recipe, folds=protocol.folds, template=protocol.template, seed=protocol.seed,
        keep=protocol.keep_clips, workers=workers, advance=advance,
    )  # fmt: skip
    with progress("points of the curve", len(shots)) as done:
        for number in shots:
            name = ALL if number is None else str(number)
            comparisons[name] = compare(
                encoder, dataset, own_folder(Path(out) / f"shots-{name}"), methods, recipe, protocol, shots=number, ready=setting,
                tell=None if tell is None else lambda line, n=name: tell(f"{n} shots: {line}"),
            )  # fmt: skip
            used = clips_used(setting.dataset, number, protocol.seed, protocol.repeats)
            for row in comparisons[name].summary.itertuples():
                measured = {c: getattr(row, c) for c in ("accuracy", "low", "high", "fold_mean", "std", "trained")}
                rows.append(
                    {"method": row.method, "adaptation": row.adaptation, "classifier": row.classifier, "shots": name, **measured, **used}
                )
            done(1)
    info = {**comparisons[name].info, "shots": list(comparisons), "note": NOTE}
    return FewShot({"few_shot": pd.DataFrame(rows)}, info, setting.errors, comparisons)
