"""Publication figures, one per file, drawn from result tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from ...analysis.keys import KEYS, file_prefix, select, views
from ...lazy import need

try:
    from .drawing import FIGURES, Context, Drawing, FigureError, MissingTable, Tables
    from .style import save
except ModuleNotFoundError:
    need("report", "matplotlib")
    raise

__all__ = ["FIGURES", "Context", "Drawing", "FigureError", "MissingTable", "draw"]


def draw(
    tables: Tables, folder: str | Path, caption: Context | Mapping | None = None, *, only: Collection[str] | None = None, prefix: str = ""
) -> list[Path]:
    """Write every figure whose tables are there as ``folder/<prefix><name>.pdf`` and ``.png``; returns the paths.

    ``caption`` holds the facts of the footer: model, dataset, clips, regime, k; the ``info`` of a result will do.
    ``only``: the names of the figures to draw, also of those that are not drawn by default.
    Tables of an analysis are drawn once per regime and level, under names that tell them apart (``postproj_``, ``token_``).
    Tables that no figure needs are ignored.
    """
    chosen = [FIGURES[name] for name in only] if only is not None else [f for f in FIGURES.values() if f.default]
    context, written = Context.of(caption), []
    told = any(set(KEYS) <= set(table) for table in tables.values())
    for figure in chosen:
        for regime, level in views({name: tables[name] for name in figure.needs if name in tables}) or [("", "")]:
            own = select(tables, regime, level) if regime else tables
            if not figure.lack(own):
                about = replace(context, regime=regime if level == "clip" else f"{regime}, tokens") if told and regime else context
                written += save(figure(own, about), Path(folder), f"{prefix}{file_prefix(regime, level)}{figure.name}")
    return written
