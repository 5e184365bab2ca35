"""Adapt an encoder to a dataset of one's own: an adapter to be saved, shared and folded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch

from ..data import Dataset
from ..data.prompts import DEFAULT_TEMPLATE
from ..evaluation import CLASSIFIERS, mean_interval
from ..evaluation.folds import Parts, fold_parts
from ..models import Encoder
from ..options import OptionError
from ..results import Result, provenance, without_nan, write_record, write_table
from .adapter import load_adapter, save_adapter
from .advice import advised, check_budget, enough, own_parts, with_units, within
from .beginning import check_begin, units_with
from .card import HELD
from .gain import ResiDual
from .methods import METHODS, adapters
from .prepare import prepare, selection
from .recipe import Recipe
from .task import Adaptation, FoldTask
from .train import Epoch, training_table
from .tuning import Learning, check_learning, learn, once_more


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
        return {"training": training_table(self.history)}

    @property
    def held(self) -> dict[str, float]:
        """Accuracy on a fold that was held out first: of the model as it was, of a linear probe, and adapted; empty where none was."""
        return {name: value for name, (value, _, _) in self.info.get("held", {}).get("accuracy", {}).items()}

    @property
    def reasons(self) -> list[str]:
        """What was chosen, and why."""
        return list(self.info["reasons"])

    @property
    def before(self) -> float:
        """Accuracy on the stopping part with everything at its start; NaN where nothing was trained."""
        return self.history[0]["stop_accuracy"] if self.history else float("nan")

    @property
    def after(self) -> float:
        """The best one, which chose the gains: an honest figure needs clips that it did not see (`compare`)."""
        return max((h["stop_accuracy"] for h in self.history), default=float("nan"))

    def write(self, folder: str | Path) -> Path:
        """The adapter in PEFT's shape, and beside it ``training.json`` and, where something was trained, ``tables/training``."""
        written = save_adapter(folder, self.encoder, self.residual, replace=True)
        if self.history:
            write_table(self.tables["training"], written / "tables", "training")
        write_record(written / f"{self.record}.json", {**self.info, "history": self.history, "errors": self.errors})
        return written


def adapt(
    encoder: Encoder,
    dataset: Dataset,
    recipe: Recipe = Recipe(),
    learning: Learning = Learning(),
    *,
    method: str = "residual",
    held: bool = True,
    budget: float | None = None,
    begin: ResiDual | str | Path | None = None,
    template: str | None = None,
    seed: int = 0,
    workers: int | None = None,
    advance: Callable[[int], object] | None = None,
    tell: Callable[[Epoch], object] | None = None,
) -> Adapted:
    """Adapt by a method that leaves an adapter. What is not given is chosen for the clips at hand (``advice.py``).

    A fifth of the clips gives the basis, a fifth says when to stop, the rest is learned from; recordings and speakers stay together. Then
    what these parts chose is learned once more from all clips (``learning``). ``held``: all this happens without one fold first, so that
    its clips can tell what the adapter is worth, and what a linear probe is. ``budget``: minutes of training.
    ``begin``: an adapter (or its folder) to go on from; it is learned from there, with its units besides those of the recipe.
    """
    if not METHODS[method].adapter:
        raise OptionError(f"{method} leaves no adapter that could be saved; one of {', '.join(adapters())}")
    recipe.check([method])
    recipe = recipe.on(encoder.device)
    check_learning(learning, recipe, [method])
    check_budget(budget, method, recipe)
    told: list[str] = []
    if begin is not None:
        begin = begin if isinstance(begin, ResiDual) else load_adapter(begin, encoder)
        check_begin(begin, method)
        recipe = recipe.changed(units=units_with(selection([method], recipe), begin, encoder.units))
    else:
        recipe, told = with_units(recipe, method, encoder.units, dataset)
    setting = prepare(
        encoder, dataset, [method], recipe, template=template, seed=seed, keep=learning.keep_clips, workers=workers, advance=advance
    )
    parts = own_parts(setting, setting.rows, setting.rows[:0], seed)
    task = FoldTask(setting, torch.from_numpy(setting.dataset.targets), parts, seed, tell, begin)
    advice = advised(setting, method, recipe, learning, begin, told)
    if budget is not None:
        advice = within(budget, task, method, advice)
    recipe, learning = advice.recipe, advice.learning
    figures = dict[str, Any]()
    outside = held_fold(task) if held and METHODS[method].trained and learning.again else None
    if outside is not None:
        tried, chosen = learn(method, outside, recipe.options(method), learning)
        figures = {"clips": len(outside.parts.test), "accuracy": on_held(outside, method, tried, recipe)}
        learned = once_more(method, task, recipe.options(method), chosen, learning.tau) if chosen["epochs"] else tried
        learned = replace(learned, history=tried.history)
    else:
        learned, chosen = learn(method, task, recipe.options(method), learning)
    assert learned.residual is not None, "a method that is registered as an adapter leaves one"
    notes = {
        **learned.residual.notes,
        "method": method,
        "dataset": dataset.name,
        "clips": clips_told(parts if outside is None else outside.parts, len(parts.seen) if learning.again and chosen.get("epochs") else 0),
        **chosen,
    }
    if figures:
        notes[HELD] = figures
    if encoder.has_text:
        notes["template"] = template or DEFAULT_TEMPLATE
    if learned.history:
        first, best = (100 * f(h["stop_accuracy"] for h in learned.history) for f in (next, max))
        notes["stopping accuracy"] = f"{first:.1f} % before, {best:.1f} % at best"
    settings = {"method": method, "options": recipe.recorded(method, encoder.units), **asdict(learning), "template": template, "seed": seed}
    info = {**provenance(encoder, dataset), "settings": settings, "reasons": advice.reasons, "held": figures, "keep_clips": setting.kept}
    return Adapted(replace(learned.residual, notes=notes), learned.history, info, setting.errors, encoder)


def clips_told(parts: Parts, again: int) -> str:
    """Who saw which clips, in a sentence."""
    told = f"{len(parts.basis)} for the basis, {len(parts.train)} for training, {len(parts.stop)} for stopping"
    told += f", {len(parts.test)} held" if len(parts.test) else ""
    return f"{told}; then all {again} once more" if again else told


def held_fold(task: FoldTask) -> FoldTask | None:
    """The same without the clips of the first fold; None where too few would be left."""
    folds = np.array([clip.fold for clip in task.setting.dataset.clips])
    if len(np.unique(folds)) < 2 or not enough(task.setting, np.flatnonzero(folds != folds.min())):
        return None
    return replace(task, parts=next(fold_parts(task.setting.dataset, task.seed))[1])


def on_held(task: FoldTask, method: str, tried: Adaptation, recipe: Recipe) -> dict[str, list[float | None]]:
    """Accuracy on the held clips with its 95 % interval over groups: the model as it was, a linear probe on it, and adapted."""
    options: Any = recipe.options(method)
    assert tried.embed is not None
    plain, judge = task.setting.embeddings, task.aim(getattr(options, "towards", "auto"))
    scores = {
        "plain": task.scores(plain, judge),
        "linear probe": task.scores(plain, CLASSIFIERS["probe"]),
        method: task.scores(tried.embed(task.setting), judge),
    }
    targets, groups = task.targets[task.parts.test], [task.setting.dataset.groups[i] for i in task.parts.test]
    intervals = {name: mean_interval(found.argmax(1).eq(targets).numpy(), groups, seed=task.seed) for name, found in scores.items()}
    return {name: [without_nan(float(end)) for end in interval] for name, interval in intervals.items()}
