"""Where published protocols are run: an encoder, the data, and a folder that keeps everything that is finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from ..adaptation.recipe import Recipe
from ..analysis import analyze
from ..analysis.dimension import estimate_dimensions
from ..comparison.sweep import place_of
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
    _tables: dict[tuple[str, int], Tables] = field(default_factory=dict)

    def run(self, data: Dataset) -> Run:
        """Extracted under its name, and its size where it was drawn."""
        name = place_of(data.name)
        folder = self.out / "runs" / (name if data in self.datasets.values() else f"{name}-{len(data)}")
        return extract(self.encoder, data, folder, ("head",), workers=self.workers)

    def tables(self, dataset: str, draw: Callable[[Dataset], Dataset] | None = None) -> Tables:
        """The analysis of pooled head outputs before the projection; ``draw``: of a part of the clips."""
        data = self.datasets[dataset] if draw is None else draw(self.datasets[dataset])
        key = dataset, len(data)
        if key not in self._tables:
            self._tables[key] = analyze(self.run(data), k=NEIGHBOURS, similarity=("spectra",), seed=self.seed).tables
        return self._tables[key]

    def heads(self, dataset: str) -> pd.DataFrame:
        """Every measure of every head with MLE as published, and MLE with our default beside it."""
        other = estimate_dimensions(self.run(self.datasets[dataset]).heads[:], k=20).table["mle"]
        return self.tables(dataset)["heads"].assign(mle_k20=other.to_numpy())

    def recipe(self, recipe: Recipe) -> Recipe:
        return recipe if self.epochs is None else recipe.changed(epochs=self.epochs)
