"""How many dimensions attention weights have: every head of a stage's mean attention, and their mean stage by stage."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ...analysis.measures import MEASURES
from .drawing import FIGURES, Context, Drawing, Tables, count, footer
from .style import DOUBLE, new_figure, stage_colour

SHOWN = ("pca_99", "participation_ratio")


def draw_points(axes: Axes, groups: list[tuple[int, pd.DataFrame]], measure: str) -> None:
    """A point per head with one standard error either way, side by side in their order."""
    for place, (stage, rows) in enumerate(groups):
        spots = place + 0.7 * ((np.arange(len(rows)) + 0.5) / len(rows) - 0.5)
        values, error = rows[measure].to_numpy(float), np.nan_to_num(rows[f"{measure}_se"].to_numpy(float))
        colour = stage_colour(stage)
        axes.vlines(spots, values - error, values + error, colors=[colour], linewidth=0.5, alpha=0.6, zorder=2)
        axes.scatter(spots, values, s=7, color=colour, linewidths=0, zorder=3)


def draw_means(axes: Axes, groups: list[tuple[int, pd.DataFrame]], measure: str) -> None:
    """Mean over heads, and their standard deviation either way."""
    means = np.array([rows[measure].mean() for _, rows in groups])
    spread = np.nan_to_num([rows[measure].std() for _, rows in groups])
    axes.plot(range(len(means)), means, color="black", linewidth=0.8, zorder=2)
    for place, (stage, _) in enumerate(groups):
        axes.errorbar(place, means[place], spread[place], color=stage_colour(stage), marker="o", markersize=4, linewidth=1.0, capsize=2)


def plot(tables: Tables, context: Context) -> Figure:
    means = tables["attention_means"]
    several = means["stage"].nunique() > 1
    # One stage has one mean over blocks; its blocks are shown instead, each with its own heads.
    rows = means[means["kind"] == "stage_head"] if several or "heads" not in tables else tables["heads"]
    by = "stage" if several or "heads" not in tables else "depth"
    groups = [(int(part["stage"].iloc[0]), part) for _, part in rows.groupby(by)]
    figure, grid = new_figure(DOUBLE, 2.6, 1, 3, width_ratios=[1.4, 1.4, 1])
    for axes, measure, letter in zip(grid[0], SHOWN, "ab", strict=False):
        draw_points(axes, groups, measure)
        axes.set_ylabel(MEASURES[measure].axis)
        axes.set_title(f"({letter}) {MEASURES[measure].title} of each head")
    draw_means(grid[0, 2], groups, SHOWN[1])
    grid[0, 2].set(title="(c) Mean over heads", ylabel=MEASURES[SHOWN[1]].axis)
    for axes in grid[0]:
        axes.set_xlim(-0.5, len(groups) - 0.5)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("stage" if by == "stage" else "block")
        axes.set_xticks(range(len(groups)), labels=[str(g) for g in rows[by].drop_duplicates().sort_values()])
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=axes is grid[0, 0]))
    footer(
        figure,
        tables,
        context,
        count(len(rows), "head"),
        "mean of a head's attention matrices over windows" + (" and the blocks of its stage" if by == "stage" else ""),
        "lines in (a), (b): ± 1 s.e.",
        "bars in (c): standard deviation over heads",
    )
    return figure


FIGURE = FIGURES.add(Drawing("dimension_of_means", {"attention_means": SHOWN}, plot, order=30))
