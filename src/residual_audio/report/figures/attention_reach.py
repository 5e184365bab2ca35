"""How evenly heads look, and how far in time and in frequency."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ...analysis.measures import MEASURES
from .drawing import FIGURES, Context, Drawing, Tables, count, footer
from .marks import depth_axis, legend_above, stage_handles, stage_points, title_above_stages
from .numbers import in_order
from .panels import draw_measure
from .style import DOUBLE, GREY, new_figure

TITLES = {"look_entropy": "entropy", "look_time": "distance in time", "look_frequency": "distance in frequency"}
RELATIVE = ("look_entropy_rel", "look_time_rel", "look_frequency_rel")
ABSOLUTE = ("look_entropy", "look_time", "look_frequency")


def plot(tables: Tables, context: Context) -> Figure:
    heads = in_order(tables["heads"])
    shown = [name for name in (*ABSOLUTE, *RELATIVE) if np.isfinite(heads[name].astype(float)).any()]
    kinds = [name for name in ABSOLUTE if name in shown]
    last = "look_frequency_rel" in shown  # time against frequency
    figure, grid = new_figure(DOUBLE, 4.6, 2, len(kinds) + last)
    columns = len(kinds) + last
    for row, names in enumerate((kinds, [f"{name}_rel" for name in kinds])):
        for column, name in enumerate(names):
            axes, measure = grid[row, column], MEASURES[name]
            draw_measure(axes, heads, name, ceiling=False)
            depth_axis(axes, heads, 0.8 * DOUBLE / columns)
            axes.set_ylabel(measure.unit or "relative (1: looks at all alike)")
            axes.set_ylim(bottom=0)
            if row:
                axes.axhline(1, color=GREY, linewidth=0.8, linestyle="--", zorder=1)
            title_above_stages(axes, f"{TITLES[name.removesuffix('_rel')]}{', relative' if row and columns < 4 else ''}")
    if last:
        for axes, (x, y) in zip(grid[:, -1], (ABSOLUTE[1:], RELATIVE[1:]), strict=True):
            stage_points(axes, heads[x], heads[y], heads["stage"])
            names = [MEASURES[name].short for name in (x, y)]
            units = [f" ({MEASURES[name].unit})" if MEASURES[name].unit else "" for name in (x, y)]
            axes.set(xlabel=names[0] + units[0], ylabel=names[1] + units[1])
            axes.set_xlim(left=0)
            axes.set_ylim(bottom=0)
            title_above_stages(axes, "time against frequency")
    if heads["stage"].nunique() > 1:
        legend_above(figure, stage_handles(heads["stage"]))
    footer(
        figure,
        tables,
        context,
        count(len(heads), "head"),
        "means over clips, windows and queries",
        "black: block mean",
        "relative: over that of a head that looks at all tokens of its window alike (dashed)",
    )
    return figure


FIGURE = FIGURES.add(Drawing("reach", {"heads": ("look_entropy", "look_entropy_rel", "look_time")}, plot, order=31))
