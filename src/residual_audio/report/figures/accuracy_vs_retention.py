"""Accuracy against the share of their variance that truncated units retain: principal axes, and random ones."""

from __future__ import annotations

from matplotlib.figure import Figure

from .drawing import FIGURES, Context, Drawing, Tables, footer
from .style import GREY, MARKERS, PALETTE, SINGLE, new_figure


def plot(tables: Tables, context: Context) -> Figure:
    table = tables["retention"]
    figure, grid = new_figure(SINGLE, 2.7)
    axes = grid[0, 0]
    for place, (kind, rows) in enumerate(table.groupby("axes", sort=False)):
        rows = rows.sort_values("share")
        colour = GREY if kind == "random" else PALETTE[place]
        axes.plot(
            100 * rows["share"],
            100 * rows["accuracy"],
            color=colour,
            marker=MARKERS[place],
            markersize=4,
            linewidth=1.0,
            label=f"{kind} axes",
        )
        axes.fill_between(100 * rows["share"], 100 * rows["low"], 100 * rows["high"], color=colour, alpha=0.2, linewidth=0)
    axes.set(xlabel="variance retained (%)", ylabel="accuracy (%)", xlim=(0, 102))
    axes.legend(loc="best")
    footer(
        figure,
        tables,
        context,
        "what is outside the retained axes is dropped; nothing is trained",
        "bands: 95 % intervals over groups of clips",
    )
    return figure


FIGURE = FIGURES.add(Drawing("accuracy_vs_retention", {"retention": ("accuracy",)}, plot, order=44))
