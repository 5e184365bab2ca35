"""Figures, tables and the page, from result files.

``draw(tables, folder)`` writes every figure whose tables are there; ``report(run)`` writes one page of a run.
"""

from typing import TYPE_CHECKING

from ..lazy import callable_room, lazily

if TYPE_CHECKING:
    from .figures import draw
    from .page import report

__all__ = ["draw", "report"]

__getattr__, __dir__ = lazily(__name__, {"draw": ".figures", "report": ".page"})
callable_room(__name__, "report")
