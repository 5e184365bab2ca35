"""What a figure is: a name, the tables it needs, and a function that plots them; every file of this package registers its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ...analysis.keys import REGIMES, UNITS, plural
from ...registry import Registry
from .style import SMALL, applied, plain

Tables = Mapping[str, pd.DataFrame]


class MissingTable(KeyError):
    """A figure was asked for and its table, or a column of it, is not there."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Context:
    """The facts below every figure. What is left out is read from the tables or not written."""

    model: str = ""
    dataset: str = ""
    clips: int | None = None
    regime: str = ""
    k: int | None = None

    @property
    def unit(self) -> str:
        """What one row of ``heads`` is."""
        return UNITS.get(self.regime.partition(",")[0], "head")

    @property
    def units(self) -> str:
        return plural(self.unit)

    @classmethod
    def of(cls, caption: Context | Mapping | None) -> Context:
        """A context from a mapping with these names, such as the ``info`` of a result; other entries of it are not for the figures."""
        if isinstance(caption, Context):
            return caption
        known = {field.name for field in fields(cls)}
        named = {key: value["name"] if isinstance(value, Mapping) else value for key, value in dict(caption or {}).items() if key in known}
        return cls(**named)


@dataclass(frozen=True)
class Drawing:
    """One figure. ``needs`` maps a table to the columns of which at least one must hold a finite number.

    ``default``: drawn whenever its tables are there; others are drawn only when they are asked for by name.
    """

    name: str
    needs: Mapping[str, tuple[str, ...]]
    plot: Callable[[Tables, Context], Figure]
    order: int = 50
    default: bool = True

    def lack(self, tables: Tables) -> str:
        """Why this figure cannot be drawn from these tables; empty if it can."""
        for table, columns in self.needs.items():
            if table not in tables:
                return f"figure {self.name} needs the table {table!r}"
            frame = tables[table]
            absent = [column for column in columns if column not in frame.columns]
            if absent:
                return f"figure {self.name} needs the columns {absent} of the table {table!r}"
            numbers = frame[list(columns)] if columns else frame.select_dtypes("number")
            if not np.isfinite(numbers.to_numpy(float)).any():
                return f"figure {self.name} finds no number in {', '.join(columns) or 'any column'} of the table {table!r}"
        return ""

    def __call__(self, tables: Tables, context: Context) -> Figure:
        """The laid-out figure, which keeps our look when it is saved elsewhere."""
        if lack := self.lack(tables):
            raise MissingTable(
                f"{lack}; `residual-audio analyze` writes those of a run, `compare`, `few-shot` and `search` those of a comparison"
            )
        with applied():
            figure = self.plot(tables, context)
            for axes in figure.axes:
                axes.tick_params(labelsize=SMALL)  # matplotlib makes ticks when it draws, perhaps under other settings
            figure.get_layout_engine().execute(figure)  # type: ignore[union-attr]
            figure.set_layout_engine("none")
        return figure


class FigureError(ValueError):
    """A figure that does not exist."""


FIGURES: Registry[Drawing] = Registry("figure", __package__, FigureError)


def clips_text(tables: Tables, context: Context) -> str:
    """The number of clips; from the heads' own counts where the context does not say."""
    if context.clips is not None:
        return f"{context.clips:,} clips"
    counts = tables["heads"]["n"].dropna() if "heads" in tables and "n" in tables["heads"] else pd.Series(dtype=float)
    if counts.empty:
        return ""
    low, high = int(counts.min()), int(counts.max())
    return f"{high:,} clips" if low == high else f"{low:,}–{high:,} distinct clips"


def neighbours_text(tables: Tables, context: Context) -> str:
    """The k of the nearest-neighbour estimate, for figures that show it."""
    k = context.k
    if k is None and "heads" in tables and "k" in tables["heads"] and tables["heads"]["k"].notna().any():
        k = int(tables["heads"]["k"].max())
    return "" if k is None else f"MLE with k = {k}"


def footer(figure: Figure, tables: Tables, context: Context, *facts: str) -> None:
    """The facts in small letters below the figure, broken between facts so that they stay inside its width."""
    first, comma, rest = context.regime.partition(",")
    regime = plain(REGIMES.get(first, first) + comma + rest)
    model = Path(context.model).name if context.model.startswith((".", "/", "~")) else context.model  # a folder's path says too much
    everything = [plain(model), plain(context.dataset), clips_text(tables, context), regime, *facts]
    room = int(figure.get_figwidth() * 23)  # letters of 6 points to an inch
    lines = [""]
    for fact in filter(None, everything):
        joined = f"{lines[-1]} · {fact}" if lines[-1] else fact
        if lines[-1] and len(joined) > room:
            lines.append(fact)
        else:
            lines[-1] = joined
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=SMALL, color="#404040", linespacing=1.25)


def ablated_on(table: pd.DataFrame) -> str:
    """How many clips an ablation used: often fewer than the analysis."""
    return f"ablated on {count(int(table['clips'].iloc[0]), 'clip')}" if "clips" in table and len(table) else ""


def count(number: int, what: str) -> str:
    """``1 head``, ``2 heads``."""
    return f"{number:,} {what if number == 1 else plural(what)}"


def left_out(number: int, what: str = "head") -> str:
    """How many rows had no value; nothing to say when there were none."""
    return f"{count(number, what)} without a value left out" if number else ""
