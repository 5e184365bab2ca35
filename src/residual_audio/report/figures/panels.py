"""Panels A–F: one point per head, block by block through the network, for one measure or three thresholds of one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from ...analysis.measures import MEASURES, ONE
from .drawing import FIGURES, Context, Drawing, Tables, count, footer, left_out, neighbours_text
from .marks import depth_axis, strip_positions, title_above_stages
from .numbers import in_order
from .style import DOUBLE, GREY, SINGLE, new_figure, stage_colours

FAR = 4  # a largest possible value that is further above all points than this is not drawn


@dataclass(frozen=True)
class Panel:
    """``measures``: one plot each. ``ceiling``: draw the largest possible value. ``share``: a fraction, in per cent."""

    letter: str
    measures: tuple[str, ...]
    ceiling: bool = False
    share: bool = False
    neighbours: bool = False


def draw_measure(axes: Axes, heads: pd.DataFrame, column: str, ceiling: bool) -> None:
    """Heads as points with one standard error either way, block means as black bars."""
    x, y = strip_positions(heads), heads[column].to_numpy(float)
    finite = np.isfinite(y)
    colours = np.array(stage_colours(heads["stage"]))
    if f"{column}_se" in heads:
        error = np.nan_to_num(heads[f"{column}_se"].to_numpy(float))
        axes.vlines(x[finite], (y - error)[finite], (y + error)[finite], colors=colours[finite], linewidth=0.4, alpha=0.6, zorder=2)
    axes.scatter(x[finite], y[finite], s=4.5, c=colours[finite], linewidths=0, alpha=0.85, zorder=3)
    means = heads.assign(value=y).groupby("depth")["value"].mean().dropna()
    axes.hlines(means, means.index - 0.42, means.index + 0.42, color="black", linewidth=1.0, zorder=4)
    if ceiling and "ceiling" in heads:
        tops = heads.groupby("depth")["ceiling"].max().dropna()
        axes.hlines(tops, tops.index - 0.5, tops.index + 0.5, color=GREY, linewidth=0.8, linestyle=":", zorder=1)


def within_sight(heads: pd.DataFrame, names: list[str]) -> bool:
    """Whether the largest possible value can be drawn without pressing the others flat: vectors may be far longer than what is in them."""
    return "ceiling" in heads and bool(heads["ceiling"].max() <= FAR * heads[names].max().max())


def with_single_clips(panel: Panel, heads: pd.DataFrame) -> list[str]:
    """A measure of neighbours stands beside itself with one clip per recording, where the run has recordings of several clips."""
    if len(panel.measures) > 1:
        return list(panel.measures)
    return [*panel.measures, *(name for name in (f"{m}_{ONE}" for m in panel.measures) if name in heads and heads[name].notna().any())]


def plot(panel: Panel, tables: Tables, context: Context) -> Figure:
    heads = in_order(tables["heads"])
    names = with_single_clips(panel, heads)
    columns = len(names)
    width = SINGLE if columns == 1 else DOUBLE
    figure, grid = new_figure(width, 2.5, 1, columns, sharey=True)
    shown = [MEASURES[name] for name in names]
    titles = [m.title if columns > 1 else f"{m.title} of each {context.unit}" for m in shown]
    ceiling = panel.ceiling and within_sight(heads, names)
    for axes, measure, title in zip(grid[0], shown, titles, strict=True):
        draw_measure(axes, heads, measure.name, ceiling)
        depth_axis(axes, heads, 0.85 * width / columns)
        title_above_stages(axes, title)
    first = grid[0, 0]
    first.set_ylabel(shown[0].axis if columns == 1 else shown[0].unit)
    if panel.share:
        first.set_ylim(0, 1.02)
        first.set_yticks(np.linspace(0, 1, 5))
        first.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
        first.axhline(0.5, color=GREY, linewidth=0.8, linestyle="--", zorder=1)
    else:
        first.set_ylim(bottom=0)
    title_above_stages(first, f"{panel.letter}  {titles[0]}")
    missing = int(heads[names].isna().any(axis=1).sum())
    errors = [f"{column}_se" for column in names if f"{column}_se" in heads and heads[f"{column}_se"].gt(0).any()]
    footer(
        figure,
        tables,
        context,
        count(len(heads) - missing, context.unit),
        neighbours_text(tables, context) if panel.neighbours else "",
        left_out(missing, context.unit),
        "black: block mean",
        "lines: ± 1 s.e." if errors else "",
        "dotted: largest possible value" if ceiling else "",
        "dashed: 50 %" if panel.share else "",
    )
    return figure


PANELS = (
    Panel("A", ("pca_90", "pca_95", "pca_99"), ceiling=True),
    Panel("B", ("twonn",)),
    Panel("C", ("mle",), neighbours=True),
    Panel("D", ("participation_ratio",), ceiling=True),
    Panel("E", ("effective_rank",), ceiling=True),
    Panel("F", ("evr_1",), share=True),
)
for order, panel in enumerate(PANELS, 10):
    FIGURES.add(Drawing(f"panel_{panel.letter}", {"heads": panel.measures}, partial(plot, panel), order=order))
