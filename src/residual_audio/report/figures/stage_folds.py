"""Gains on every set of stages, fold by fold (report 2, figure 9): dots are folds, bars their range, lines their medians."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .drawing import FIGURES, Context, Drawing, Tables, count, footer
from .marks import legend_above
from .style import DOUBLE, GREY, LIGHT, PALETTE, new_figure

TABLE, START, FOLD = "reproduce_seed2-fig9", "residual-stage ", "accuracy_fold_"


def draw_sets(axes: Axes, folds: pd.DataFrame, title: str) -> None:
    """``folds``: index, measure and ours of every fold; the model as it is becomes a dashed line."""
    sets = [name for name in dict.fromkeys(folds["index"]) if name.startswith(START)]
    best = max(folds[folds["index"] == name].ours.median() for name in sets)
    for place, name in enumerate(sets):
        values = folds[folds["index"] == name].ours
        axes.vlines(place, values.min(), values.max(), color=LIGHT, linewidth=5, zorder=1)
        axes.plot([place] * len(values), values, "o", color=PALETTE[0], markersize=2.4, markeredgewidth=0, alpha=0.8, zorder=3)
        middle = values.median()
        axes.hlines(middle, place - 0.32, place + 0.32, color=PALETTE[4] if middle == best else "black", linewidth=1.3, zorder=4)
    if len(plain := folds[folds["index"] == "zero-shot"].ours):
        axes.axhline(plain.median(), color=GREY, linewidth=0.8, linestyle="--", zorder=2)
    axes.set_xticks(range(len(sets)), labels=[name.removeprefix(START) for name in sets], rotation=60, ha="right", rotation_mode="anchor")
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel("set of stages, one basis each")
    axes.set_title(title)


def plot(tables: Tables, context: Context) -> Figure:
    table = tables[TABLE]
    folds = table[table.measure.str.startswith(FOLD)]
    protocols = list(dict.fromkeys(folds.protocol))
    figure, grid = new_figure(DOUBLE, 2.7, 1, len(protocols), sharey=True)
    for axes, protocol in zip(grid[0], protocols, strict=True):
        draw_sets(axes, folds[folds.protocol == protocol], protocol)
    grid[0][0].set_ylabel("accuracy (%)")
    legend_above(
        figure,
        [
            Line2D([], [], color=PALETTE[0], linestyle="", marker="o", markersize=2.4, label="one fold"),
            Line2D([], [], color="black", linewidth=1.3, label="median"),
            Line2D([], [], color=PALETTE[4], linewidth=1.3, label="highest median"),
            Line2D([], [], color=GREY, linewidth=0.8, linestyle="--", label="as it is (median)"),
        ],
    )
    footer(figure, tables, context, count(folds.measure.nunique(), "fold"), "grey: from the least to the most")
    return figure


FIGURE = FIGURES.add(Drawing("stage_folds", {TABLE: ("ours",)}, plot, order=44))
