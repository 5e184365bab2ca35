"""Requests that need more than one part of the server."""

from __future__ import annotations

import time
from typing import Any

from ..adaptation.beginning import check_begin, units_with
from ..adaptation.defaults import UNITS
from ..adaptation.gain import ResiDual
from ..adaptation.methods import adapters
from ..adaptation.recipe import Recipe
from ..adaptation.select import choose_places
from .board import judged
from .bodies import JobBody
from .entry import Entry, Setting
from .jobs import Jobs
from .labels import Labels
from .problems import Problem
from .shelf import Shelf


def equalised(entry: Entry, setting: Setting) -> dict[str, Any]:
    """What the sliders do: as a direct effect, and through the whole network."""
    began = time.perf_counter()
    board, moves, change = entry.change(setting)
    targets = entry.targets[board.part.rows]
    before = judged(board.part.base, targets)
    direct = judged(board.direct(entry.heads, setting.strength, moves), targets)
    whole = before if change is None else judged(entry.bench.scores(change), targets)
    return {"clips": len(targets), "before": before, "direct": direct, "whole": whole, "seconds": time.perf_counter() - began}


def queued(jobs: Jobs, shelf: Shelf, labels: Labels, body: JobBody, order: dict[str, Any], begin: ResiDual | None) -> dict[str, Any]:
    """A training, from ``begin`` on; checked as far as that goes without a model."""
    if body.method not in adapters():
        raise Problem(422, f"unknown method; one of {', '.join(adapters())}")
    if body.dataset is None:
        shelf.entry.need_run()
    table = None if body.dataset is None else str(labels.table(body.dataset))
    options = {key: value for key, value in (("units", body.units), ("epochs", body.epochs)) if value is not None}
    try:
        Recipe(**options).check([body.method])
        if body.units is not None:
            choose_places(shelf.entry.encoder.units, body.units)
        if begin is not None:
            check_begin(begin, body.method)
            units_with(body.units or UNITS, begin, shelf.entry.encoder.units)
    except ValueError as error:
        raise Problem(422, str(error)) from error
    return jobs.add(shelf, body.name, body.dataset, body.method, {**order, "table": table, "options": options}, body.replace, begin)
