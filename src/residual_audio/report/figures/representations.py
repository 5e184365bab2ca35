"""Heads, MLPs, writes and streams on one axis: how many dimensions each has, block by block."""

from __future__ import annotations

from dataclasses import replace

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ...analysis.keys import REGIMES
from ...analysis.measures import MEASURES
from .drawing import FIGURES, Context, Drawing, Tables, footer
from .marks import depth_axis, legend_above, title_above_stages
from .style import DOUBLE, GREY, MARKERS, PALETTE, new_figure

SHOWN = ("pca_99", "participation_ratio", "twonn")


def plot(tables: Tables, context: Context) -> Figure:
    rows = tables["representations"]
    kinds = [name for name in REGIMES if (rows["representation"] == name).any()]
    colours = (*PALETTE, "black", GREY)
    looks = {name: (colours[i % len(colours)], MARKERS[i % len(MARKERS)]) for i, name in enumerate(kinds)}
    figure, grid = new_figure(DOUBLE, 2.9, 1, len(SHOWN))
    for axes, measure in zip(grid[0], SHOWN, strict=True):
        for name, (colour, shape) in looks.items():
            part = rows[rows["representation"] == name].sort_values("depth")
            axes.plot(part["depth"], part[measure], color=colour, marker=shape, markersize=3, linewidth=0.9, markeredgewidth=0)
        depth_axis(axes, rows, 0.85 * DOUBLE / len(SHOWN))
        axes.set_ylim(bottom=0)
        axes.set_ylabel(MEASURES[measure].axis)
        title_above_stages(axes, MEASURES[measure].title)
    names = {"pre": "heads, pre-projection", "post": "heads, post-projection"}
    handles = [
        Line2D([], [], color=c, marker=m, markersize=3, linewidth=0.9, label=names.get(name, REGIMES[name]))
        for name, (c, m) in looks.items()
    ]
    legend_above(figure, handles, min(3, len(handles)))
    footer(
        figure,
        tables,
        replace(context, regime=""),
        "means over the units of a block",
        "one space per stage, wider from stage to stage" if rows["stage"].nunique() > 1 else "",
    )
    return figure


FIGURE = FIGURES.add(Drawing("representations", {"representations": SHOWN}, plot, order=32))
