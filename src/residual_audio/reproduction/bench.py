"""Where published protocols are run: an encoder, the data, and a folder that keeps everything that is finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from ..adaptation.recipe import Recipe
from ..analysis import analyze
from ..analysis.dimension import estimate_dimensions
from ..data import Dataset
from ..extraction import Run, extract
from ..models import Encoder
from .rows import PROTOCOLS, Tables

NEIGHBOURS = 5  # of MLE in the published table of heads; its text says 20, our default


@dataclass
class Bench:
    """An encoder, the data by their published names, and a folder that keeps everything that is finished.

    ``epochs`` shortens every training (a quick look). ``tell(line)`` is told of finished folds.
    """

    encoder: Encoder
    datasets: dict[str, Dataset]
    out: Path
    protocols: Sequence[str] = PROTOCOLS
    epochs: int | None = None
    seed: int = 42
    workers: int | None = None
    tell: Callable[[str], object] | None = None
    _tables: dict[tuple[str, int | None], Tables] = field(default_factory=dict)

    def run(self, dataset: str) -> Run:
        data = self.datasets[dataset]
        return extract(self.encoder, data, self.out / "runs" / data.name, ("head",), workers=self.workers)

    def tables(self, dataset: str, points: int | None = None) -> Tables:
        """The analysis of pooled head outputs before the projection; ``points``: of so many clips."""
        if (dataset, points) not in self._tables:
            run = self.run(dataset)
            analysis = analyze(run, k=NEIGHBOURS, points=points, similarity=("spectra",), seed=self.seed)
            self._tables[dataset, points] = analysis.tables
        return self._tables[dataset, points]

    def heads(self, dataset: str) -> pd.DataFrame:
        """Every measure of every head with MLE as published, and MLE with our default beside it."""
        other = estimate_dimensions(self.run(dataset).heads[:], k=20).table["mle"]
        return self.tables(dataset)["heads"].assign(mle_k20=other.to_numpy())

    def recipe(self, recipe: Recipe) -> Recipe:
        return recipe if self.epochs is None else recipe.changed(epochs=self.epochs)


def drawn(dataset: Dataset, count: int, seed: int = 42) -> Dataset:
    """So many clips, classes in proportion, as scikit-learn's StratifiedShuffleSplit draws them; all where there are no more."""
    from sklearn.model_selection import StratifiedShuffleSplit

    classes, counts = np.unique(dataset.targets, return_counts=True)
    if count >= len(dataset):
        return dataset
    if count < len(classes) or len(dataset) - count < len(classes) or counts.min() < 2:
        return dataset.limited(count, seed=seed)
    rows, _ = next(StratifiedShuffleSplit(1, train_size=count, random_state=seed).split(dataset.targets, dataset.targets))
    kept = {dataset.clips[i].id for i in rows}
    return dataset.only(lambda clip: clip.id in kept, f"{count} drawn in proportion to the classes, seed {seed}")
