"""Equal chances: every trained method has a grid of its own, chosen on the stopping part, and learns once more from all clips.

What a fold's test clips are is never looked at here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..options import OptionError, Options, option, option_specs
from .methods import METHODS
from .options import Loop, MethodOptions, ShareOptions
from .recipe import Recipe

if TYPE_CHECKING:
    from ..evaluation.folds import Parts
    from .task import Adaptation, FoldTask

STRENGTHS = tuple(round(0.1 * i, 1) for i in range(11))


@dataclass(frozen=True)
class Learning(Options):
    """What is chosen by the parts, and what is learned from then."""

    tune: bool = option(False, "Choose rate and decay of every trained method on the stopping part, from grids of equal size.")
    trial_epochs: int | None = option(
        None, "Most epochs of each trial of --tune; the chosen one then learns from the start to its end. Default: --epochs, once.",
        least=1,
    )  # fmt: skip
    again: bool = option(True, "Learn once more from all clips outside the test, for as long as the stopping part said.")
    tau: float | None = option(None, "Strength of what was learned, 1 + τ(g − 1): all of it at 1, nothing at 0; default: 1.", least=0)
    keep_gain: float | None = option(
        None, "Scale back to the smallest strength that keeps this share of the gained accuracy on the stopping part, such as 0.9.", least=0
    )
    keep_clips: str | None = option(
        None, "Clips without labels on which --keep-answers holds: a dataset, folder:PATH or a table. Default: the training clips."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tau is not None and self.tau > 1:
            raise OptionError(f"--tau: {self.tau:g} is more than was learned; give 0 to 1 (compare --strengths scores further ones)")
        if self.tau is not None and self.keep_gain is not None:
            raise OptionError("--keep-gain chooses the strength that --tau gives; give one of the two")
        if self.trial_epochs is not None and not self.tune:
            raise OptionError("--trial-epochs does nothing without --tune, whose trials it shortens")

    @property
    def scales(self) -> bool:
        """Whether a strength is asked for."""
        return self.tau is not None or self.keep_gain is not None


def grid_of(method: str) -> dict[str, tuple[float, ...]]:
    """The options that tuning chooses, and the values that it tries; those with more values first."""
    grid = {name: spec.grid for name, spec in option_specs(METHODS[method].options).items() if spec.grid}
    return dict(sorted(grid.items(), key=lambda item: -len(item[1])))


def check_learning(how: Learning, recipe: Recipe, methods: Sequence[str]) -> None:
    """An option that tuning chooses cannot be given as well; a strength needs a method that has one."""
    if how.scales and not any(METHODS[m].folds for m in methods):
        able = ", ".join(name for name, m in METHODS.items() if m.folds)
        raise OptionError(
            f"{'--tau' if how.keep_gain is None else '--keep-gain'} does nothing for {', '.join(methods)}: it is read by {able}"
        )
    if how.keep_clips is not None and not any(getattr(recipe.options(m), "keep_answers", 0) for m in methods):
        raise OptionError("--keep-clips does nothing without --keep-answers, the weight of what they hold")
    for method in methods if how.tune else ():
        for name in grid_of(method):
            if name in recipe:
                flag = option_specs(METHODS[method].options)[name].flag
                raise OptionError(f"{flag} is chosen by --tune for {method}; give one of the two")


def trials(name: str, values: tuple[float, ...], options: MethodOptions) -> Iterator[MethodOptions]:
    """The points of one option; everything else as it is."""
    for value in values:
        choice: dict[str, Any] = {name: value}
        yield replace(options, **choice)


def tuned(method: str, task: FoldTask, options: MethodOptions, most: int | None = None) -> tuple[MethodOptions, Adaptation]:
    """One option of the grid after the other, each at its best on the stopping part; no point is tried twice. With ``most`` epochs per
    trial, the best is learned again, for as long as its options say."""
    tried: dict[MethodOptions, Adaptation] = {}
    assert isinstance(options, Loop | ShareOptions)  # as every trained method's are
    whole = options.epochs
    short: MethodOptions = options if most is None else with_epochs(options, min(most, whole))
    for name, values in grid_of(method).items():
        for point in trials(name, values, short):
            if point not in tried:
                tried[point] = METHODS[method].run(task, point)
        short = max(tried, key=lambda point: judged(tried[point]))
    best = with_epochs(short, whole)
    return best, tried[best] if best in tried else METHODS[method].run(task, best)


def with_epochs(options: MethodOptions, epochs: int) -> MethodOptions:
    changed: dict[str, Any] = {"epochs": epochs}
    return replace(options, **changed)


def judged(learned: Adaptation) -> tuple[float, float]:
    """What trials are ranked by: the best accuracy on the stopping part, of equals the one with the lower loss."""
    from .train import best_epoch

    best = best_epoch(learned.history)
    return best["stop_accuracy"], -best["stop_loss"]


def once_more(method: str, task: FoldTask, options: MethodOptions, chosen: dict[str, Any], tau: float | None = None) -> Adaptation:
    """From all clips outside the test, with what was chosen, from the basis on. The history is that of the last run."""
    from ..evaluation.folds import Parts

    seen = task.parts.seen
    whole = replace(task, parts=Parts(basis=seen, train=seen, stop=seen[:0], test=task.parts.test))
    values = {name: value for name, value in chosen.items() if name != "tau"}
    return at_strength(METHODS[method].run(whole, replace(options, **values)), chosen.get("tau", tau))


def learn(method: str, task: FoldTask, options: MethodOptions, how: Learning = Learning()) -> tuple[Adaptation, dict[str, Any]]:
    """Run a method; with ``tune``, over its grid, and keep the best on the stopping part.

    ``again``: what the parts have chosen (point of the grid, number of epochs) is then learned once more, from the basis on, from all
    clips outside the test. Methods that do so by themselves, and those that train nothing, run once. Gives what was learned, and what
    was chosen. Without a stopping part (a single shot) there is nothing to choose by: the defaults hold.
    """
    from .train import best_epoch

    known, chosen = METHODS[method], dict[str, Any]()
    judges = len(task.parts.stop) > 0
    if not (known.trained and (how.tune or how.again or how.keep_gain is not None) and judges):
        learned = known.run(task, options)
        return at_strength(learned, how.tau), chosen
    if how.tune:
        options, learned = tuned(method, task, options, how.trial_epochs)
        chosen = {name: getattr(options, name) for name in grid_of(method)}
    else:
        learned = known.run(task, options)
    epochs = int(best_epoch(learned.history)["epoch"])
    chosen["epochs"] = epochs
    tau = how.tau
    if how.keep_gain is not None and learned.scaled is not None:
        tau = chosen["tau"] = smallest_strength(learned, task, options, how.keep_gain)
    if not how.again or known.labels == "seen" or epochs == 0:
        return at_strength(learned, tau), chosen
    return replace(once_more(method, task, options, chosen, tau), history=learned.history), chosen


def at_strength(learned: Adaptation, tau: float | None) -> Adaptation:
    """At a part of its strength; what does not fold has no other."""
    return learned if tau is None or learned.scaled is None else learned.scaled(tau)


def smallest_strength(learned: Adaptation, task: FoldTask, options: Any, share: float) -> float:
    """The smallest of ``STRENGTHS`` at which the stopping part keeps the share of what it gained; zero where it gained nothing."""
    assert learned.scaled is not None
    reached: dict[float, float] = {}
    classifier = task.aim(options.towards)
    for tau in STRENGTHS:
        judge = replace(task, parts=replace(task.parts, basis=task.parts.train[:0], stop=task.parts.train[:0], test=task.parts.stop))
        embed = learned.scaled(tau).embed
        assert embed is not None
        scores = judge.scores(embed(task.setting), classifier)
        reached[tau] = float(scores.argmax(1).eq(task.targets[task.parts.stop]).double().mean())
    goal = reached[0.0] + share * (reached[1.0] - reached[0.0])
    return next((tau for tau in STRENGTHS if reached[tau] >= goal - 1e-9), 1.0)


def label_share(method: str, parts: Parts, again: bool) -> float:
    """The part of the labels outside the test that a method learns from; those that only say when to stop do not count."""
    known = METHODS[method]
    if known.labels == "none":
        return 0.0
    return 1.0 if known.labels == "seen" or (again and known.trained) else len(parts.train) / len(parts.seen)
