"""ResiDual and its family: the chosen units are changed inside their principal axes by a learned form; everything else is frozen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...options import OptionError, option
from ..defaults import FORM
from ..forms import FORMS, WIDE
from ..options import Axes, Basis, GainLoop, Ranked, Retained, Started, check_axes
from . import method

if TYPE_CHECKING:
    from ..select import Place
    from ..task import Adaptation, FoldTask

HELP = "; ".join(f"{form.name} ({form.help})" for form in FORMS.values())


@dataclass(frozen=True)
class FixedOptions(GainLoop, Basis, Axes, Ranked, Retained):
    """Of a form that always starts neutral."""

    wide_form: str | None = option(
        None,
        "Form of MLPs and all else that is no head; default: that of heads.",
        choices=tuple(FORMS),
    )
    wide_kept: int | float | None = option(
        None, f"Axes of MLPs and all else that is no head that are changed, as with --kept; default: --kept, or else {WIDE} of a matrix "
        "and all of gains.",
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        check_axes("--wide-kept", self.wide_kept)
        if self.wide_kept is not None and (self.retain is not None or self.components is not None):
            raise OptionError("--wide-kept goes with --kept; --retain and --components are of all units")


@dataclass(frozen=True)
class StartedOptions(FixedOptions, Started):
    """Of a form that may start elsewhere."""


@dataclass(frozen=True)
class FormOptions(StartedOptions):
    """Of any form."""

    form: str = option(FORM, f"How heads are changed: {HELP}.", choices=tuple(FORMS))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start is not None and FORMS[self.form].start is None:
            raise OptionError(f"--start: a {self.form} has no axis of its own to start at zero; use another --form")


def places_of(task: FoldTask, options: Ranked, towards: str) -> list[Place]:
    """The places of the selection, or of its best heads by a ranking."""
    from ..ranking import top_places
    from ..select import choose_places

    if options.by is None:
        return choose_places(task.encoder.units, options.units)
    return top_places(task, options.by, options.units, options.top, towards)


def learned_form(task: FoldTask, options: FixedOptions, form: str, *, random: bool = False) -> Adaptation:
    """Learn a form on the axes that the options ask for, or on ``random`` ones."""
    from ..beginning import begun, has_wide_gains
    from ..gain import Shape
    from ..starting import at_work, bases_of, starting
    from ..train import train_gains

    places = places_of(task, options, options.towards)
    bases = bases_of(task, places, options.level, options.basis)
    first = options.start if isinstance(options, StartedOptions) else None
    wide = options.wide_form
    if wide is None and task.begin is not None and has_wide_gains(task.begin):
        wide = "gains"
    shape = Shape(form, wide, options.kept, options.retain, first, options.band, options.wide_kept)
    notes: dict[str, object] = {"units": options.units, "form": form, "level": options.level, "basis": options.basis}
    notes["axes"] = "random" if random else "principal"
    if options.components is not None:
        notes["components"] = options.components
    if options.by is not None:
        notes["heads"] = f"the best {sum(len(p.heads) for p in places)} by {options.by}"
    start = starting(task, places, bases, options.mean, shape, random=random, notes=notes)
    start = start if task.begin is None else begun(start, task.begin)
    lesson = task.lesson(options.towards, options.logit_scale, options.keep_answers)
    how = options.training(options.rate, task.seed, options.l1)
    trained = train_gains(start, task.streams, lesson, how, task.tell)
    return at_work(task, trained.residual, trained.residual.trained, trained.history)


@method(
    "residual", FormOptions, "ResiDual: a learned --form inside the units' principal axes", adapter=True, trained=True, begins=True,
    order=10,
)  # fmt: skip
def residual(task: FoldTask, options: FormOptions) -> Adaptation:
    return learned_form(task, options, options.form)


def with_form(name: str) -> None:
    """A method of every form, so that a comparison can hold several side by side."""
    form = FORMS[name]

    @method(
        name, FixedOptions if form.start is None else StartedOptions, f"`residual --form {name}`: {form.help}", adapter=True, trained=True,
        begins=True, order=11,
    )  # fmt: skip
    def run(task: FoldTask, options: FixedOptions) -> Adaptation:
        return learned_form(task, options, name)


for _name in FORMS:
    with_form(_name)
