"""What `adapt` chooses where nothing is asked for, and why: by the clips at hand and, with a budget, by the time that they take."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..data import Dataset
from ..evaluation.folds import Parts, few_parts, inner_parts
from ..options import OptionError, option_specs
from ..units import UnitTable
from . import defaults
from .beginning import SEEN, needs_matrix
from .gain import ResiDual
from .methods import METHODS
from .recipe import Recipe
from .task import FoldTask, Setting
from .tuning import Learning, grid_of

# What everything takes, in trials: on a held fold a trial and once more, then once more from all clips; and with tuning.
PLAIN, TUNED = 4, 7
SEPARATE = 5  # clips per class that separate parts need


@dataclass(frozen=True)
class Advice:
    """What is done, and why."""

    recipe: Recipe
    learning: Learning
    reasons: list[str] = field(default_factory=list)


def check_budget(budget: float | None, method: str, recipe: Recipe) -> None:
    """A budget chooses how long is learned; it needs something that is learned, and cannot share the choice."""
    if budget is None:
        return
    if budget <= 0:
        raise OptionError(f"--budget: {budget:g} minutes; give more than none")
    if not METHODS[method].trained:
        raise OptionError(f"--budget does nothing for {method}, which learns nothing")
    if "epochs" in recipe:
        raise OptionError("--budget chooses the number of epochs that --epochs gives; give one of the two")


def advised_units(units: UnitTable, per_class: float) -> tuple[str, str]:
    """Where changes reach by the number of clips per class, and why."""
    stages = len(units.heads)
    if stages == 1:
        return defaults.UNITS, "the last two blocks, whose streams are computed once"
    if per_class < defaults.MANY:
        return defaults.UNITS, f"the last two blocks: {per_class:.0f} clips per class, fewer than {defaults.MANY}"
    return f"S{stages - 2} S{stages - 1} heads mlps", f"the last two stages: {per_class:.0f} clips per class are enough"


def with_units(recipe: Recipe, method: str, units: UnitTable, dataset: Dataset) -> tuple[Recipe, list[str]]:
    """The recipe with its units, which have to be known before clips are run, and why they were chosen where they were not given."""
    if "units" not in option_specs(METHODS[method].options) or "units" in recipe:
        return recipe, []
    chosen, why = advised_units(units, len(dataset) / len(dataset.labels))
    return recipe.changed(units=chosen), [f"units {chosen!r}: {why}"]


def advised(
    setting: Setting, method: str, recipe: Recipe, learning: Learning, begin: ResiDual | None = None, reasons: Sequence[str] = ()
) -> Advice:
    """The form for the number of clips, or for what is begun with; what was given stays as it is. ``reasons``: of earlier choices."""
    specs, classes = option_specs(METHODS[method].options), len(setting.dataset.labels)
    per_class = len(setting.dataset) / classes
    reasons = list(reasons)
    if begin is not None:
        reasons.append(f"learning goes on from an adapter of {begin.trained:,} numbers, whose units are learned too; {SEEN}")
    if begin is not None and needs_matrix(begin) and "form" in specs and "form" not in recipe:
        recipe = recipe.changed(form="mixing")
        reasons.append("form mixing: gains cannot say what it begins with")
    elif "form" in specs and "form" not in recipe:
        form = defaults.FORM if per_class >= defaults.FEW else "gains"
        recipe = recipe.changed(form=form)
        many = f"{per_class:.0f} clips per class"
        reasons.append(
            f"form {form}: {many}, {'enough for' if form == defaults.FORM else f'fewer than {defaults.FEW}: too few for'} a matrix"
        )
    if METHODS[method].trained and learning.again:
        reasons.append("parts say how long to learn; then everything is learned once more from all clips")
    return Advice(recipe, learning, reasons)


def within(budget: float, task: FoldTask, method: str, advice: Advice) -> Advice:
    """The same within so many minutes, by the time that one epoch takes here: tuned where there is time, else perhaps fewer epochs."""
    options: Any = advice.recipe.options(method)
    began = time.perf_counter()
    METHODS[method].run(replace(task, tell=None), replace(options, epochs=1))
    epoch = time.perf_counter() - began
    room, reasons = 60 * budget / epoch, [*advice.reasons, f"an epoch takes {epoch:.1f} s here"]
    free = not any(name in advice.recipe for name in grid_of(method))
    if room >= TUNED * options.epochs and free and not advice.learning.tune:
        reasons.append(f"rate and decay are chosen on the stopping part: {budget:g} minutes are enough")
        return Advice(advice.recipe, replace(advice.learning, tune=True), reasons)
    passes = TUNED if advice.learning.tune else PLAIN
    if room < passes * options.epochs:
        epochs = max(1, int(room / passes))
        reasons.append(f"at most {epochs} epochs, to stay within {budget:g} minutes")
        return Advice(advice.recipe.changed(epochs=epochs), advice.learning, reasons)
    return Advice(advice.recipe, advice.learning, reasons)


def own_parts(setting: Setting, rows: Any, test: Any, seed: int) -> Parts:
    """Separate parts for basis, training and stopping; of too few clips, every class keeps some to learn from, and the basis is of all."""
    if enough(setting, rows):
        return inner_parts(setting.dataset, rows, test, seed)
    return few_parts(setting.dataset, rows, test, seed, len(rows))


def enough(setting: Setting, rows: Any) -> bool:
    """Whether these clips can be split into separate parts."""
    return len(rows) >= SEPARATE * len(setting.dataset.labels)
