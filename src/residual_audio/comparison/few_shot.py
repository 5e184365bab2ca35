"""Accuracy against the number of clips a class: one comparison a point, all on the same test folds; resumable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ..adaptation.methods_old import needs_inputs
from ..adaptation.task import Recipe
from ..data import Dataset
from ..evaluation import EvaluationError
from ..evaluation.folds import fold_parts
from ..models import Encoder
from .compare import Comparison, compare, prepare

ALL = "all"
# Said wherever the numbers are shown.
NOTE = "N clips a class in all, for every method; a quarter of them (at least one of two) says when to stop"


@dataclass(frozen=True)
class FewShot:
    """``table``: one row a method and point, in the order they were asked for; ``comparisons``: what each point came from."""

    table: pd.DataFrame
    comparisons: dict[str, Comparison]

    @property
    def errors(self) -> dict[str, str]:
        """Clips that could not be read: the same for every point."""
        return next(iter(self.comparisons.values())).errors


def parse_shots(text: str) -> list[int | None]:
    """``"1,2,4,all"`` → ``[1, 2, 4, None]``; rising, and each once."""
    found: set[int | None] = set()
    for word in (w.strip() for w in text.split(",") if w.strip()):
        if word != ALL and not (word.isascii() and word.isdigit() and int(word) > 0):
            raise EvaluationError(f"shots: {word!r} is neither a number of clips a class nor {ALL!r}, as in 1,2,4,8,16,{ALL}")
        found.add(None if word == ALL else int(word))
    if not found:
        raise EvaluationError(f"shots: none given; name some, as in 1,2,4,8,16,{ALL}")
    return sorted(found, key=lambda n: float("inf") if n is None else n)


def clips_used(dataset: Dataset, shots: int | None, seed: int, repeats: int) -> dict[str, float]:
    """Clips a class, on average over classes, folds and repeats: learned from (``train``) and seen at all outside the test (``seen``)."""
    parts = [p for repeat in range(repeats) for _, p in fold_parts(dataset, seed + repeat, shots)]
    classes = len(dataset.labels)
    return {
        "train": float(np.mean([len(p.train) for p in parts])) / classes,
        "seen": float(np.mean([len(p.seen) for p in parts])) / classes,
    }


def few_shot(
    encoder: Encoder,
    dataset: Dataset,
    methods: Sequence[str],
    out: str | Path,
    recipe: Recipe = Recipe(),
    *,
    shots: Sequence[int | None] = (1, 2, 4, 8, 16, None),
    folds: str = "official",
    template: str = "sound-of",
    repeats: int = 1,
    seed: int = 0,
    workers: int | None = None,
    advance: Callable[[int], object] | None = None,
    tell: Callable[[str], object] | None = None,
) -> FewShot:
    """Compare ``methods`` with N clips a class in all, for every N of ``shots`` (None: all clips outside the test).

    Point N is a comparison in ``out/shots-N``, so the same call goes on where it stopped. The test folds are whole and the same
    everywhere; points differ only in the clips that may be used: for the basis, for training and for stopping (``evaluation/folds.py``).
    """
    comparisons = {}
    rows = []
    inputs = needs_inputs(list(methods), recipe)
    setting = prepare(encoder, dataset, recipe, folds, template, seed, workers, advance, inputs)
    for number in shots:
        name = ALL if number is None else str(number)
        found = compare(
            encoder, dataset, methods, Path(out) / f"shots-{name}", recipe, folds=folds, template=template, repeats=repeats, shots=number,
            seed=seed, ready=setting, tell=None if tell is None else lambda line, n=name: tell(f"{n} shots: {line}"),
        )  # fmt: skip
        comparisons[name] = found
        used = clips_used(setting.dataset, number, seed, repeats)
        for row in found.summary.itertuples():
            measured = {c: getattr(row, c) for c in ("accuracy", "std", "low", "high", "trained")}
            rows.append({"method": row.method, "shots": name, **measured, **used})
    return FewShot(pd.DataFrame(rows), comparisons)
