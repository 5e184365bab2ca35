"""Where published protocols are run: an encoder, the data, and a folder that keeps everything that is finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from ..adaptation.recipe import Recipe
from ..analysis import analyze
from ..analysis.dimension import estimate_dimensions
from ..data import Dataset
from ..extraction import Run, extract
from ..models import Encoder
from .rows import PROTOCOLS, Tables

Advance = Callable[[int], object]
Progress = Callable[[str, int], AbstractContextManager[Advance]]
NEIGHBOURS = 5  # of MLE in the published table of heads; its text says 20, our default


@contextmanager
def silent(title: str, total: int) -> Iterator[Advance]:
    yield lambda n: None


@dataclass
class Bench:
    """An encoder, the data by their published names, and a folder that keeps everything that is finished.

    ``epochs`` shortens every training (a quick look). ``progress(title, total)`` shows how far a step is, ``tell(line)`` finished folds.
    """

    encoder: Encoder
    datasets: dict[str, Dataset]
    out: Path
    protocols: Sequence[str] = PROTOCOLS
    epochs: int | None = None
    seed: int = 42
    workers: int | None = None
    progress: Progress = silent
    tell: Callable[[str], object] | None = None
    _tables: dict[tuple[str, int], Tables] = field(default_factory=dict)

    def run(self, data: Dataset) -> Run:
        """Extracted under its name, and its size where it was drawn."""
        folder = self.out / "runs" / (data.name if data in self.datasets.values() else f"{data.name}-{len(data)}")
        with self.progress(f"{self.encoder.name} on {data.name}", len(data)) as advance:
            return extract(self.encoder, data, folder, ("head",), workers=self.workers, advance=advance)

    def tables(self, dataset: str, draw: Callable[[Dataset], Dataset] | None = None) -> Tables:
        """The analysis of pooled head outputs before the projection; ``draw``: of a part of the clips."""
        data = self.datasets[dataset] if draw is None else draw(self.datasets[dataset])
        key = dataset, len(data)
        if key not in self._tables:
            run = self.run(data)
            with self.progress(f"heads on {dataset}", len(run.units.where("head"))) as advance:
                analysis = analyze(run, k=NEIGHBOURS, similarity=("spectra",), seed=self.seed, advance=advance)
            self._tables[key] = analysis.tables
        return self._tables[key]

    def heads(self, dataset: str) -> pd.DataFrame:
        """Every measure of every head with MLE as published, and MLE with our default beside it."""
        other = estimate_dimensions(self.run(self.datasets[dataset]).heads[:], k=20).table["mle"]
        return self.tables(dataset)["heads"].assign(mle_k20=other.to_numpy())

    def recipe(self, recipe: Recipe) -> Recipe:
        return recipe if self.epochs is None else recipe.changed(epochs=self.epochs)
