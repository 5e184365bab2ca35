"""Accuracy with only the best k heads kept: how few of them carry the task, and whether a ranking beats chance."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .drawing import FIGURES, Context, Drawing, Tables, count, footer
from .style import DOUBLE, GREY, LIGHT, PALETTE, new_figure

FEW = 0.05


def draw_curves(axes: Axes, curves: pd.DataFrame) -> None:
    """One line per ranking; the band is the middle 90 % of several orders."""
    heads = int(curves["k"].max())
    axes.axvline(FEW * heads, color=LIGHT, linewidth=1.0, zorder=1)
    for place, (ranking, curve) in enumerate(curves.groupby("ranking", sort=False)):
        several = curve["low"].notna().all()
        colour = GREY if several else PALETTE[place]
        axes.plot(curve["k"], 100 * curve["accuracy"], color=colour, linewidth=1.1, label=str(ranking), zorder=3)
        if several:
            axes.fill_between(curve["k"], 100 * curve["low"], 100 * curve["high"], color=colour, alpha=0.25, linewidth=0, zorder=2)
    axes.set_xlim(0, heads)
    axes.set_ylim(0, 102)
    axes.set_xlabel("heads kept")


def plot(tables: Tables, context: Context) -> Figure:
    curves = tables["selection"]
    settings = list(curves["others"].unique())
    figure, grid = new_figure(DOUBLE, 2.7, 1, len(settings), sharey=True)
    for place, (axes, setting) in enumerate(zip(grid[0], settings, strict=True)):
        draw_curves(axes, curves[curves["others"] == setting])
        axes.set_title(f"({'abc'[place]}) MLPs and embedding {setting}")
    grid[0][0].set_ylabel("accuracy (%)")
    grid[0][-1].legend(loc="lower right")
    orders = int(curves["orders"].max())
    footer(
        figure,
        tables,
        context,
        count(int(curves["k"].max()), "head"),
        "the other heads' direct shares at their means",
        "ranked on one half of the clips, tested on the other, both ways round",
        f"band: middle 90 % of {orders} random orders" if orders > 1 else "",
        "grey line: 5 % of the heads",
    )
    return figure


FIGURE = FIGURES.add(Drawing("accuracy_vs_k", {"selection": ("accuracy",)}, plot, order=43))
