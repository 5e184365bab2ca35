"""Gains that follow the heuristics of an earlier report (on spectral reweighting, section 4.1 and outlook) for the blocks of HTS-AT.

Each heuristic is a method of its own (``methods/prune_early.py`` and so on); what its words leave open is an option.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from torch import Tensor

from ..units import SelectionError, UnitTable
from .gain import GainSet, ResiDual
from .options import PresetOptions
from .select import Place
from .starting import at_work
from .streams import place_bases
from .task import Adaptation, FoldTask


def preset_places(units: UnitTable, first: int, last: int) -> list[Place]:
    """The heads of the blocks ``first`` to ``last``, counted through all stages."""
    pairs = list(units.blocks)[first : last + 1]
    if not pairs:
        raise SelectionError(f"this preset is for blocks {first} to {last}, and the encoder has {len(units.blocks)}; choose by --blocks")
    return [Place("heads", ((s, b),), tuple(range(units.heads[s][b]))) for s, b in pairs]


def preset(task: FoldTask, options: PresetOptions, gains: Callable[[Tensor], Tensor], name: str) -> Adaptation:
    """``gains(variance [unit, axis])`` on the heads of the blocks that the options name."""
    places = preset_places(task.encoder.units, *options.block_range)
    bases = place_bases(task.setting.whole, task.parts.basis, places, options.level)  # type: ignore[arg-type]
    sets = tuple(GainSet(p, b.axes, b.mean, b.variance, gains(b.variance)) for p, b in zip(places, bases, strict=True))
    chosen = ", ".join(f"{key}={value}" for key, value in asdict(options).items() if key not in ("level", "mean"))
    residual = ResiDual(sets, options.mean, {"preset": f"{name}: {chosen}"})  # type: ignore[arg-type]
    return at_work(task, residual, whole=True)
