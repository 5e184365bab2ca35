"""Block metrics as a coloured table: linear and nonlinear dimension, their ratio, dominance of the first component."""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from ...analysis.measures import MEASURES
from .drawing import FIGURES, Context, Drawing, Tables, count, footer, left_out
from .marks import BORDER, STRIP, stage_strip
from .numbers import number_text
from .style import LIGHT, SEQUENTIAL, SINGLE, new_figure

COLUMNS = {"pca_99": "L", "twonn": "N", "l_n": "ratio", "evr_1": "share"}  # and what each is in this table


def scaled(values: np.ndarray) -> np.ndarray:
    """Each column from 0 (smallest) to 1 (largest) on its own; a constant column is in the middle."""
    out = np.full(values.shape, np.nan)
    for j, column in enumerate(values.T):
        finite = np.isfinite(column)
        if finite.any():
            low, high = column[finite].min(), column[finite].max()
            out[finite, j] = (column[finite] - low) / (high - low) if high > low else 0.5
    return out


def plot(tables: Tables, context: Context) -> Figure:
    blocks = tables["blocks"].sort_values("depth", ascending=False)
    values = blocks[list(COLUMNS)].to_numpy(float)
    shades = scaled(values)
    colours = colormaps[SEQUENTIAL].with_extremes(bad=LIGHT)
    figure, grid = new_figure(SINGLE, 0.9 + 0.2 * len(blocks))
    axes = grid[0, 0]
    axes.imshow(np.ma.masked_invalid(shades), cmap=colours, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for row, column in np.ndindex(values.shape):
        dark = np.isfinite(shades[row, column]) and shades[row, column] < 0.5
        axes.text(column, row, number_text(values[row, column], 2), ha="center", va="center", color="white" if dark else "black")
    stages = blocks["stage"].tolist()
    for row in np.flatnonzero(np.diff(stages)):
        axes.axhline(row + 0.5, **{**BORDER, "color": "white", "linewidth": 1.6, "linestyle": "-"})
        axes.axhline(row + 0.5, **{**BORDER, "linewidth": 1.0})
    axes.set_xticks(range(len(COLUMNS)), labels=[f"{MEASURES[name].short}\n{role}" for name, role in COLUMNS.items()])
    axes.xaxis.tick_top()
    names = [f"{r.depth}   S{r.stage}B{r.block}" for r in blocks.itertuples()]
    axes.set_yticks(range(len(blocks)), labels=names)
    axes.tick_params(axis="x", length=0)
    axes.tick_params(axis="y", length=0, pad=STRIP)
    axes.spines[:].set_visible(False)
    axes.set_ylabel("block (depth, name)")
    stage_strip(axes, stages, "left")
    footer(
        figure,
        tables,
        context,
        f"means over the heads of {count(len(blocks), 'block')}" + (f", {int(blocks['heads'].sum())} heads" if "heads" in blocks else ""),
        left_out(int(np.isnan(values).sum()), "cell"),
        "each column has its own colour scale",
        "dashed: stage border" if len(set(stages)) > 1 else "",
    )
    return figure


FIGURE = FIGURES.add(Drawing("htsat_block_metrics", {"blocks": tuple(COLUMNS)}, plot, order=20))
