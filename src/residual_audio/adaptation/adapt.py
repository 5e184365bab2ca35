"""Adapt an encoder to a dataset of one's own: an adapter to be saved, shared and folded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch

from ..data import Dataset
from ..data.prompts import DEFAULT_TEMPLATE
from ..evaluation.folds import inner_parts
from ..models import Encoder
from ..options import OptionError
from ..results import Result, provenance, write_record
from .adapter import save_adapter
from .gain import ResiDual
from .methods import METHODS, adapters
from .prepare import prepare
from .recipe import Recipe
from .task import FoldTask
from .train import Epoch


@dataclass(frozen=True)
class Adapted(Result):
    """An adapter, what happened while it was learned, and the clips that could not be read."""

    record: ClassVar[str] = "training"
    residual: ResiDual
    history: list[Epoch]
    info: dict[str, Any]
    errors: dict[str, str]
    encoder: Encoder = field(repr=False)

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """``training``: one row per epoch; empty where nothing was trained."""
        return {"training": pd.DataFrame(self.history)}

    @property
    def before(self) -> float:
        """Accuracy on the stopping part with everything at its start; NaN where nothing was trained."""
        return self.history[0]["stop_accuracy"] if self.history else float("nan")

    @property
    def after(self) -> float:
        """The best one, which chose the gains: an honest figure needs clips that it did not see (`compare`)."""
        return max((h["stop_accuracy"] for h in self.history), default=float("nan"))

    def write(self, folder: str | Path) -> Path:
        """The adapter in PEFT's shape, and ``training.json`` beside it."""
        written = save_adapter(folder, self.encoder, self.residual)
        write_record(written / f"{self.record}.json", {**self.info, "history": self.history, "errors": self.errors})
        return written


def adapt(
    encoder: Encoder,
    dataset: Dataset,
    recipe: Recipe = Recipe(),
    *,
    method: str = "residual",
    template: str | None = None,
    seed: int = 0,
    workers: int | None = None,
    advance: Callable[[int], object] | None = None,
    tell: Callable[[Epoch], object] | None = None,
) -> Adapted:
    """Adapt by a method that leaves an adapter.

    A fifth of the clips gives the basis, a fifth says when to stop, the rest is learned from; recordings and speakers stay together.
    """
    if not METHODS[method].adapter:
        raise OptionError(f"{method} leaves nothing that could be saved or folded; one of {', '.join(adapters())}")
    recipe.check([method])
    setting = prepare(encoder, dataset, [method], recipe, template=template, seed=seed, workers=workers, advance=advance)
    parts = inner_parts(setting.dataset, setting.rows, setting.rows[:0], seed)
    task = FoldTask(setting, torch.from_numpy(setting.dataset.targets), parts, seed, tell)
    learned = METHODS[method].run(task, recipe.options(method))
    notes = {
        **learned.residual.notes,
        "method": method,
        "dataset": dataset.name,
        "clips": f"{len(parts.basis)} for the basis, {len(parts.train)} for training, {len(parts.stop)} for stopping",
    }
    if encoder.has_text:
        notes["template"] = template or DEFAULT_TEMPLATE
    if learned.history:
        first, best = (100 * f(h["stop_accuracy"] for h in learned.history) for f in (next, max))
        notes["stopping accuracy"] = f"{first:.1f} % before, {best:.1f} % at best"
    settings = {"method": method, "options": recipe.recorded(method, encoder.units), "template": template, "seed": seed}
    info = {**provenance(encoder, dataset), "settings": settings}
    return Adapted(replace(learned.residual, notes=notes), learned.history, info, setting.errors, encoder)
