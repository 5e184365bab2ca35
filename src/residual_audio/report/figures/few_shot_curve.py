"""How accuracy grows with the clips per class, method by method."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from .drawing import FIGURES, Context, Drawing, Tables, footer
from .marks import legend_above
from .pairs import looks
from .style import SINGLE, new_figure, plain

ALL = "all"
APART = 0.07  # octaves between methods at one point, so that their intervals do not hide each other


def positions(shots: pd.Series) -> dict[str, float]:
    """x of every point: its number; ``all`` stands an octave after the largest one."""
    numbers = sorted({int(s) for s in shots if s != ALL})
    return {**{str(n): float(n) for n in numbers}, ALL: 2.0 * numbers[-1] if numbers else 1.0}


def draw_method(axes: Axes, rows: pd.DataFrame, where: dict[str, float], shift: float, colour: tuple, marker: str) -> None:
    """A line through the numbers, dashed on to ``all``, whose distance is not to scale."""
    rows = rows.assign(x=[where[s] * 2**shift for s in rows["shots"]]).sort_values("x")
    known = rows.dropna(subset=["low", "high"])
    axes.vlines(known["x"], known["low"], known["high"], color=colour, linewidth=0.8, zorder=2)
    counted = rows[rows["shots"] != ALL]
    axes.plot(counted["x"], counted["accuracy"], color=colour, linewidth=1.0, zorder=3)
    if len(counted) and len(counted) < len(rows):
        axes.plot(rows["x"].tail(2), rows["accuracy"].tail(2), color=colour, linewidth=1.0, linestyle=(0, (2, 2)), zorder=3)
    axes.plot(rows["x"], rows["accuracy"], marker, color=colour, markersize=4, markeredgewidth=0, zorder=4)


def plot(tables: Tables, context: Context) -> Figure:
    table = tables["few_shot"].assign(shots=tables["few_shot"]["shots"].astype(str)).dropna(subset=["accuracy"])
    table = table.assign(**{c: 100 * table[c].astype(float) for c in ("accuracy", "low", "high") if c in table})
    table = table.reindex(columns=[*table.columns, *({"low", "high"} - set(table.columns))])
    methods = list(dict.fromkeys(table["method"]))
    where = positions(table["shots"])
    figure, grid = new_figure(SINGLE, 2.9)
    axes = grid[0, 0]
    axes.set_xscale("log", base=2)
    look = looks(table.drop_duplicates("method"))
    handles = []
    for i, (method, colour, marker) in enumerate(zip(methods, look.colours, look.markers, strict=True)):
        draw_method(
            axes, table[table["method"] == method], where, APART * min(1.0, 6 / len(methods)) * (i - (len(methods) - 1) / 2), colour, marker
        )
        handles.append(Line2D([], [], color=colour, marker=marker, markersize=4, markeredgewidth=0, linewidth=1.0, label=plain(method, 24)))
    present = [s for s in where if (table["shots"] == s).any()]
    axes.set_xticks([where[s] for s in present], labels=present)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(min(where[s] for s in present) / 1.35, max(where[s] for s in present) * 1.35)
    axes.set(xlabel="clips per class, N", ylabel="accuracy (%)")
    axes.margins(y=0.08)
    legend_above(figure, look.handles or handles, 4 if look.handles else min(3, len(handles)))
    full = float(table.loc[table["shots"] == ALL, "seen"].max()) if "seen" in table else np.nan
    footer(
        figure, tables, context, "N clips per class in all, a quarter of them to stop on",
        f"all: {full:.0f} clips per class outside the test" if np.isfinite(full) else "",
        "lines: 95 % intervals over groups of test clips" if table[["low", "high"]].notna().any(axis=None) else "",
    )  # fmt: skip
    return figure


FIGURE = FIGURES.add(Drawing("few_shot_curve", {"few_shot": ("accuracy",)}, plot, order=41))
