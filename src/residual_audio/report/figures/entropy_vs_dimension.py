"""Spectral entropy against the number of components, one point a head."""

from __future__ import annotations

from matplotlib.figure import Figure

from .drawing import Context, Drawing, Tables, count, footer, left_out
from .marks import legend_above, stage_handles, stage_points
from .numbers import correlation, number_text, p_text
from .style import SINGLE, new_figure


def plot(tables: Tables, context: Context) -> Figure:
    heads = tables["heads"]
    figure, grid = new_figure(SINGLE, 2.8)
    axes = grid[0, 0]
    rank = heads["stage"].rank(method="dense") - 1
    # Counts of components are whole numbers: without this one stage would hide another.
    aside = 0.5 * ((rank + 0.5) / (rank.max() + 1) - 0.5)
    stage_points(axes, heads["pca_99"] + aside, heads["entropy"], heads["stage"])
    found = correlation(heads["pca_99"], heads["entropy"], "spearman")
    axes.set_title(f"Spearman ρ = {number_text(found.value)}, {p_text(found.p)}")
    axes.set(xlabel="components for 99 % of the variance", ylabel="spectral entropy (nats)")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    legend_above(figure, stage_handles(heads["stage"]))
    footer(figure, tables, context, count(found.n, "head"), left_out(len(heads) - found.n), "stages side by side")
    return figure


FIGURE = Drawing("entropy_vs_dimension", {"heads": ("entropy", "pca_99")}, plot)
