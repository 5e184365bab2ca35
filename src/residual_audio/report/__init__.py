"""Figures, tables and the page, from result files.

``draw(tables, folder)`` writes every figure whose tables are there; ``report(run)`` writes one page of a run.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..lazy import lazily

if TYPE_CHECKING:
    from .figures import draw
    from .page import report

__all__ = ["draw", "report"]

__getattr__, __dir__ = lazily(__name__, {"draw": ".figures", "report": ".page"})


class _Room(ModuleType):
    """``residual_audio.report`` is this room and, as users call it, its function: both are reached by the same name."""

    def __call__(self, *args: Any, **named: Any) -> Any:
        from .page import report

        return report(*args, **named)


sys.modules[__name__].__class__ = _Room
