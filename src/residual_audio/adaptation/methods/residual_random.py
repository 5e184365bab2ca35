"""The control of ResiDual: the same form on random axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import method
from .residual import FormOptions, learned_form

if TYPE_CHECKING:
    from ..task import Adaptation, FoldTask


@method("residual-random", FormOptions, "the same --form on random orthonormal axes: a control", adapter=True, trained=True, order=12)
def residual_random(task: FoldTask, options: FormOptions) -> Adaptation:
    return learned_form(task, options, options.form, random=True)
