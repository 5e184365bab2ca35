"""ResiDual: one gain per principal axis of the chosen units, learned; everything else is frozen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..options import Axes, Basis, GainLoop, Kept, Ranked
from . import method

if TYPE_CHECKING:
    from ..select import Place
    from ..task import Adaptation, FoldTask


@dataclass(frozen=True)
class TiedOptions(GainLoop, Basis, Axes, Ranked):
    """Of gains whose axes are all kept."""


@dataclass(frozen=True)
class GainOptions(TiedOptions, Kept):
    """Of gains on some or all axes."""


def places_of(task: FoldTask, options: Ranked, classifier: str) -> list[Place]:
    """The places of the selection, or of its best heads by a ranking."""
    from ..ranking import top_places
    from ..select import choose_places

    if options.by is None:
        return choose_places(task.encoder.units, options.units)
    return top_places(task, options.by, options.units, options.top, classifier)


def trained_gains(task: FoldTask, options: TiedOptions, *, random: bool = False, tied: bool = False) -> Adaptation:
    """Learn gains on the axes that the options ask for: ``random`` ones, or a single gain per unit (``tied``)."""
    from ..starting import bases_of, gains_at_work, starting
    from ..task import Adaptation
    from ..train import train_gains

    places = places_of(task, options, options.classifier)
    bases = bases_of(task, places, options.level, options.basis)
    kept, first = (options.kept, options.start) if isinstance(options, GainOptions) else (None, None)
    notes: dict[str, object] = {"units": options.units, "level": options.level, "basis": options.basis}
    notes["axes"] = "random" if random else "principal"
    if options.by is not None:
        notes["heads"] = f"the best {sum(len(p.heads) for p in places)} by {options.by}"
    start = starting(task, places, bases, options.mean, kept=kept, start=first, tied=tied, random=random, notes=notes)
    how = options.training(options.rate, task.seed, options.l1)
    trained = train_gains(start, task.streams, task.lesson(options.classifier, options.logit_scale), how, task.tell)
    residual = trained.residual
    return Adaptation(residual.trained, gains_at_work(residual), residual=residual, history=trained.history)


@method("residual", GainOptions, "ResiDual: one learned gain per principal axis of the units", adapter=True, trained=True, order=10)
def residual(task: FoldTask, options: GainOptions) -> Adaptation:
    return trained_gains(task, options)
