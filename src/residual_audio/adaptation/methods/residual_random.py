"""The control of ResiDual: the same gains on random axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import method
from .residual import GainOptions, trained_gains

if TYPE_CHECKING:
    from ..task import Adaptation, FoldTask


@method("residual-random", GainOptions, "the same gains on random orthonormal axes: a control", adapter=True, trained=True, order=11)
def residual_random(task: FoldTask, options: GainOptions) -> Adaptation:
    return trained_gains(task, options, random=True)
