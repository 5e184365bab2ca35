"""Spectral entropy against the number of components, one point per head."""

from __future__ import annotations

from matplotlib.figure import Figure

from ...analysis.measures import MEASURES
from ...analysis.permutation import correlation
from ...analysis.statistics import CAVEAT
from .drawing import FIGURES, Context, Drawing, Tables, count, footer, left_out
from .marks import legend_above, stage_handles, stage_points
from .numbers import number_text, p_text
from .style import SINGLE, new_figure


def plot(tables: Tables, context: Context) -> Figure:
    heads = tables["heads"]
    figure, grid = new_figure(SINGLE, 2.8)
    axes = grid[0, 0]
    place = heads["stage"].rank(method="dense") - 1
    # Counts of components are whole numbers: without this one stage would hide another.
    aside = 0.5 * ((place + 0.5) / (place.max() + 1) - 0.5)
    stage_points(axes, heads["pca_99"] + aside, heads["entropy"], heads["stage"])
    rank_correlation = correlation(heads["pca_99"], heads["entropy"], "spearman")
    axes.set_title(f"Spearman ρ = {number_text(rank_correlation.value)}, {p_text(rank_correlation.p)}")
    axes.set(xlabel=MEASURES["pca_99"].axis, ylabel=MEASURES["entropy"].axis)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    legend_above(figure, stage_handles(heads["stage"]))
    footer(
        figure,
        tables,
        context,
        count(rank_correlation.n, context.unit),
        left_out(len(heads) - rank_correlation.n),
        "stages side by side",
        CAVEAT,
    )
    return figure


FIGURE = FIGURES.add(Drawing("entropy_vs_dimension", {"heads": ("entropy", "pca_99")}, plot, order=22))
