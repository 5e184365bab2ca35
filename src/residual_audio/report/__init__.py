"""Figures, tables and the page, from result files.

``draw(tables, folder)`` writes every figure whose tables are there; ``report(run)`` writes one page of a run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .figures import draw
    from .page import report

__all__ = ["draw", "report"]

_HOME = {"draw": ".figures", "report": ".page"}


def __getattr__(name: str) -> object:
    """Import the heavy parts (matplotlib, torch) only when they are asked for."""
    if name in _HOME:
        return getattr(import_module(_HOME[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
