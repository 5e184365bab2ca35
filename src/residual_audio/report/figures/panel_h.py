"""Panel H: rank correlation of the measures with each other, over heads."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from .drawing import Context, Drawing, Tables, count, footer, neighbours_text
from .numbers import correlation, number_text
from .style import DIVERGING, LIGHT, SINGLE, SMALL, new_figure

# The variants twonn_fit, mle_inverse and evr_2 would only repeat their neighbours.
MEASURES = {
    "pca_90": "PCA 90 %",
    "pca_95": "PCA 95 %",
    "pca_99": "PCA 99 %",
    "participation_ratio": "part. ratio",
    "effective_rank": "eff. rank",
    "entropy": "entropy",
    "evr_1": "EVR₁",
    "twonn": "TwoNN",
    "mle": "MLE",
    "l_n": "L/N",
}


def plot(tables: Tables, context: Context) -> Figure:
    heads = tables["heads"]
    names = list(MEASURES)
    found = [[correlation(heads[a], heads[b], "spearman") for b in names] for a in names]
    values = np.array([[cell.value for cell in row] for row in found])
    pairs = np.array([[cell.n for cell in row] for row in found])
    figure, grid = new_figure(SINGLE, 3.9)
    axes = grid[0, 0]
    axes.set_facecolor(LIGHT)
    image = axes.imshow(values, cmap=DIVERGING, vmin=-1, vmax=1, interpolation="nearest")
    for row, column in np.ndindex(values.shape):
        value = float(values[row, column])
        # Without the leading zero the number fits its cell in letters of 6 points; a plain 1 is exact.
        text = "1" if value > 1 - 1e-9 else number_text(value, 2).replace("0.", ".").replace("1.00", "1.0")
        axes.text(column, row, text, ha="center", va="center", fontsize=SMALL, color="white" if abs(value) > 0.6 else "black")
    axes.set_xticks(range(len(names)), labels=list(MEASURES.values()), rotation=90)
    axes.set_yticks(range(len(names)), labels=list(MEASURES.values()))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title("Correlation of the measures over heads")
    bar = figure.colorbar(image, ax=axes, location="bottom", shrink=0.8, aspect=35, pad=0.02, ticks=[-1, -0.5, 0, 0.5, 1])
    bar.set_label("Spearman ρ")
    bar.outline.set_visible(False)  # type: ignore[operator]
    fewest, most = int(pairs.min()), int(pairs.max())
    footer(
        figure,
        tables,
        context,
        count(most, "head") if fewest == most else f"{fewest}–{most} of {len(heads)} heads a pair (complete pairs)",
        neighbours_text(tables, context),
    )
    return figure


FIGURE = Drawing("panel_H", {"heads": tuple(MEASURES)}, plot)
