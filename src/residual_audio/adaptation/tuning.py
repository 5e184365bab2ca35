"""Equal chances: every trained method has a grid of its own, chosen on the stopping part, and may learn once more from all clips.

What a fold's test clips are is never looked at here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from ..evaluation.folds import Parts
from ..options import OptionError, option_specs
from .methods import METHODS
from .options import MethodOptions
from .recipe import Recipe
from .task import Adaptation, FoldTask
from .train import best_epoch


def grid_of(method: str) -> dict[str, tuple[float, ...]]:
    """The options that tuning chooses, and the values that it tries."""
    return {name: spec.grid for name, spec in option_specs(METHODS[method].options).items() if spec.grid}


def check_untuned(recipe: Recipe, methods: list[str]) -> None:
    """An option that tuning chooses cannot be given as well."""
    for method in methods:
        for name in grid_of(method):
            if name in recipe:
                flag = option_specs(METHODS[method].options)[name].flag
                raise OptionError(f"{flag} is chosen by --tune for {method}; give one of the two")


def trials(method: str, options: MethodOptions) -> Iterator[tuple[dict[str, float], MethodOptions]]:
    """Every point of the grid."""
    grid = grid_of(method)
    for values in product(*grid.values()):
        chosen = dict(zip(grid, values, strict=True))
        yield chosen, replace(options, **chosen)


def judged(learned: Adaptation) -> tuple[float, float]:
    """What trials are ranked by: the best accuracy on the stopping part, of equals the one with the lower loss."""
    best = best_epoch(learned.history)
    return best["stop_accuracy"], -best["stop_loss"]


def learn(
    method: str, task: FoldTask, options: MethodOptions, tune: bool = False, again: bool = False
) -> tuple[Adaptation, dict[str, Any]]:
    """Run a method; with ``tune``, at every point of its grid, and keep the best on the stopping part.

    ``again``: what the parts have chosen (point of the grid, number of epochs) is then learned once more, from the basis on, from all
    clips outside the test. Methods that do so by themselves, and those that train nothing, run once. Gives what was learned, and what
    was chosen. Without a stopping part (a single shot) there is nothing to choose by: the defaults hold.
    """
    known, chosen = METHODS[method], dict[str, Any]()
    judges = len(task.parts.stop) > 0
    if not (known.trained and (tune or again) and judges):
        return known.run(task, options), chosen
    if tune:
        tried = [(choice, point, known.run(task, point)) for choice, point in trials(method, options)]
        chosen, options, learned = max(tried, key=lambda trial: judged(trial[2]))
        chosen = dict(chosen)
    else:
        learned = known.run(task, options)
    epochs = int(best_epoch(learned.history)["epoch"])
    chosen["epochs"] = epochs
    if not again or known.labels == "seen" or epochs == 0:
        return learned, chosen
    seen = task.parts.seen
    whole = replace(task, parts=Parts(basis=seen, train=seen, stop=seen[:0], test=task.parts.test))
    length: dict[str, Any] = {"epochs": epochs}
    final = known.run(whole, replace(options, **length))
    return replace(final, history=learned.history), chosen


def label_share(method: str, parts: Parts, again: bool) -> float:
    """The part of the labels outside the test that a method learns from; those that only say when to stop do not count."""
    known = METHODS[method]
    if known.labels == "none":
        return 0.0
    return 1.0 if known.labels == "seen" or (again and known.trained) else len(parts.train) / len(parts.seen)
