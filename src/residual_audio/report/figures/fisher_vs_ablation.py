"""Does a head that separates the classes also matter for the answer? Fisher ratio against the cost of ablating it."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ...analysis.measures import MEASURES
from ...analysis.permutation import Correlation, correlation, partial_correlation
from ...analysis.statistics import CAVEAT
from .drawing import FIGURES, Context, Drawing, Tables, ablated_on, count, footer, left_out
from .marks import legend_above, stage_handles, stage_points, zero_line
from .numbers import number_text, p_text
from .style import SINGLE, new_figure, stage_colours


def said(name: str, of: Correlation) -> str:
    return f"{name} = {number_text(of.value)}, {p_text(of.p)}"


def plot(tables: Tables, context: Context) -> Figure:
    ablation = tables["ablation_head"]
    columns = [c for c in ("label", "margin_drop", "margin_low", "margin_high") if c in ablation]
    both = tables["heads"][["label", "stage", "depth", "fisher"]].merge(ablation[columns], on="label", how="inner")
    complete = both.dropna(subset=["fisher", "margin_drop"])
    figure, grid = new_figure(SINGLE, 3.0)
    axes = grid[0, 0]
    zero_line(axes)
    intervals = "margin_low" in complete and "margin_high" in complete and bool(np.isfinite(complete["margin_low"]).any())
    if intervals:
        colours = stage_colours(complete["stage"])
        axes.vlines(
            complete["fisher"], complete["margin_low"], complete["margin_high"], colors=colours, linewidth=0.4, alpha=0.45, zorder=2
        )
    stage_points(axes, complete["fisher"], complete["margin_drop"], complete["stage"])
    pair = complete["fisher"], complete["margin_drop"]
    within = partial_correlation(*pair, complete["depth"])
    lines = [
        said("Pearson r", correlation(*pair, "pearson")),
        said("Spearman ρ", correlation(*pair, "spearman")),
        said("ρ given depth", within),
    ]
    axes.set_title("\n".join(lines), linespacing=1.3)
    axes.set(xlabel=MEASURES["fisher"].axis, ylabel=MEASURES["margin_drop"].axis)
    legend_above(figure, stage_handles(complete["stage"]))
    footer(
        figure,
        tables,
        context,
        ablated_on(tables["ablation_head"]),
        count(len(complete), "head"),
        left_out(len(both) - len(complete)),
        "lines: 95 % paired bootstrap intervals" if intervals else "",
        "positive: the head helps",
        CAVEAT,
        f"ρ given depth: within blocks ({count(within.n, 'head')})" if within.n else "",
    )
    return figure


FIGURE = FIGURES.add(Drawing("fisher_vs_ablation", {"heads": ("fisher",), "ablation_head": ("margin_drop",)}, plot, order=27))
