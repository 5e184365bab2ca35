"""Panel H: rank correlation of the measures with each other, over heads."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ...analysis.measures import dimension_measures
from ...analysis.permutation import coefficient
from .drawing import FIGURES, Context, Drawing, Tables, count, footer, neighbours_text
from .numbers import number_text
from .style import DIVERGING, LIGHT, SINGLE, SMALL, new_figure


def plot(tables: Tables, context: Context) -> Figure:
    heads = tables["heads"]
    shown = [m for m in dimension_measures() if m.shown != "tables" and m.name in heads]
    cells = [[coefficient(heads[a.name], heads[b.name], "spearman") for b in shown] for a in shown]
    values = np.array([[value for value, _ in row] for row in cells])
    pairs = np.array([[n for _, n in row] for row in cells])
    figure, grid = new_figure(SINGLE, 3.9)
    axes = grid[0, 0]
    axes.set_facecolor(LIGHT)
    image = axes.imshow(values, cmap=DIVERGING, vmin=-1, vmax=1, interpolation="nearest")
    for row, column in np.ndindex(values.shape):
        value = float(values[row, column])
        # Without the leading zero the number fits its cell in letters of 6 points; a plain 1 is exact.
        text = "1" if value > 1 - 1e-9 else number_text(value, 2).replace("0.", ".").replace("1.00", "1.0")
        axes.text(column, row, text, ha="center", va="center", fontsize=SMALL, color="white" if abs(value) > 0.6 else "black")
    axes.set_xticks(range(len(shown)), labels=[m.short for m in shown], rotation=90)
    axes.set_yticks(range(len(shown)), labels=[m.short for m in shown])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(f"Correlation of the measures over {context.units}")
    bar = figure.colorbar(image, ax=axes, location="bottom", shrink=0.8, aspect=35, pad=0.02, ticks=[-1, -0.5, 0, 0.5, 1])
    bar.set_label("Spearman ρ")
    bar.outline.set_visible(False)  # type: ignore[operator]
    fewest, most = int(pairs.min()), int(pairs.max())
    footer(
        figure,
        tables,
        context,
        count(most, context.unit) if fewest == most else f"{fewest}–{most} of {len(heads)} {context.units} per pair (complete pairs)",
        neighbours_text(tables, context),
    )
    return figure


FIGURE = FIGURES.add(Drawing("panel_H", {"heads": ("pca_99", "participation_ratio")}, plot, order=17))
