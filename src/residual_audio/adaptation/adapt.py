"""Train gains on a dataset of one's own, to be saved, shared and folded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from ..comparison.compare import prepare
from ..data import Dataset
from ..evaluation.folds import inner_parts
from ..models import Encoder
from .gain import ResiDual
from .methods_old import needs_inputs, starting
from .ranking import settled
from .task import FoldTask, Recipe
from .train import train_gains


@dataclass(frozen=True)
class Adapted:
    """Gains, what happened while they were learned, and the clips that could not be read."""

    residual: ResiDual
    history: list[dict[str, float]]
    errors: dict[str, str]

    @property
    def before(self) -> float:
        """Accuracy on the stopping part with all gains at their start."""
        return self.history[0]["stop_accuracy"]

    @property
    def after(self) -> float:
        """The best one, which chose the gains: an honest figure needs clips that it did not see (`compare`)."""
        return max(h["stop_accuracy"] for h in self.history)


def adapt(
    encoder: Encoder,
    dataset: Dataset,
    recipe: Recipe = Recipe(),
    *,
    template: str = "sound-of",
    random: bool = False,
    seed: int = 0,
    workers: int | None = None,
    advance: Callable[[int], object] | None = None,
    tell: Callable[[dict[str, float]], object] | None = None,
) -> Adapted:
    """A fifth of the clips gives the basis, a fifth says when to stop, the rest is learned from; recordings and speakers stay together."""
    recipe = settled(recipe, encoder.units)
    setting = prepare(encoder, dataset, recipe, "official", template, seed, workers, advance, inputs=needs_inputs([], recipe))
    parts = inner_parts(setting.dataset, setting.rows, setting.rows[:0], seed)
    task = FoldTask(setting, torch.from_numpy(setting.dataset.targets), parts, recipe, seed)
    found = train_gains(starting(task, random), setting.streams, task.lesson(), replace(recipe.training, seed=seed), tell)
    notes = {
        **found.residual.notes,
        "dataset": dataset.name,
        "clips": f"{len(parts.basis)} for the basis, {len(parts.train)} for training, {len(parts.stop)} for stopping",
        "objective": recipe.objective,
        "template": template,
        "axes": "random" if random else "principal",
        "stopping accuracy": f"{100 * found.history[0]['stop_accuracy']:.1f} % before, {100 * found.best['stop_accuracy']:.1f} % at best",
    }
    return Adapted(ResiDual(found.residual.sets, found.residual.mean, notes), found.history, setting.errors)
