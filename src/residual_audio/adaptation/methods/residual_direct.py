"""The paper's form of ResiDual: gains on the direct shares of the chosen heads and MLPs. The encoder does not run, and nothing folds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..options import Selected, ShareOptions
from . import method

if TYPE_CHECKING:
    from ..task import Adaptation, FoldTask


@dataclass(frozen=True)
class DirectOptions(ShareOptions, Selected):
    """Of a selection of writers."""


@method(
    "residual-direct",
    DirectOptions,
    "the paper's form: gains on direct shares; does not fold",
    whole=True,
    trained=True,
    labels="seen",
    order=14,
)
def residual_direct(task: FoldTask, options: DirectOptions) -> Adaptation:
    from ..loop import on_shares
    from ..select import choose_places

    table = task.encoder.units
    table.select(options.units, only=("head", "mlp"))
    units = tuple(table.index(label) for place in choose_places(table, options.units) for label in place.labels)
    return on_shares(task, options, lambda setting: setting.shares(units))
