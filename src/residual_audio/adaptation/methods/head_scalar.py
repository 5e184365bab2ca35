"""A volume knob instead of an equaliser: a single gain per unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import method
from .residual import TiedOptions, trained_gains

if TYPE_CHECKING:
    from ..task import Adaptation, FoldTask


@method("head-scalar", TiedOptions, "one learned gain per unit", adapter=True, trained=True, order=12)
def head_scalar(task: FoldTask, options: TiedOptions) -> Adaptation:
    return trained_gains(task, options, tied=True)
