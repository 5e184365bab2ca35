"""How alike heads are: cosine of their spectra and, where the run has them, overlap of their subspaces; in Ward's order."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .drawing import FIGURES, Context, Drawing, Tables, count, footer
from .marks import legend_above, stage_handles, stage_strip
from .numbers import number_text, square, stage_of
from .style import DOUBLE, LIGHT, SEQUENTIAL, SINGLE, new_figure

KINDS = {
    "spectra": "Cosine of spectra",
    "subspaces": "Overlap of subspaces in the stream",
    "paired": "Spectral cosine, axes paired (ResiDual)",
    "cka": "Linear CKA of outputs",
    "direct": "Overlap of direct contributions",
}


def ward_order(matrix: pd.DataFrame, clusters: pd.DataFrame) -> list[str]:
    """Labels in the leaf order of the clustering; heads that it does not know come last."""
    leaves = clusters.dropna(subset=["order"]).sort_values("order")["label"]
    known = [label for label in leaves if label in matrix.index]
    return known + [label for label in matrix.index if label not in set(known)]


def comparable(matrix: pd.DataFrame) -> bool:
    """Whether heads of different stages can be compared at all: streams of different width share no subspace."""
    stages = np.array([stage_of(label) for label in matrix.index])
    return bool(np.isfinite(matrix.to_numpy(float)[stages[:, None] != stages]).any()) or len(set(stages)) == 1


def summary_text(tables: Tables, kind: str) -> str:
    """Mean similarity within and between stages, as the analysis found it."""
    if "similarity_summary" not in tables:
        return ""
    rows = tables["similarity_summary"]
    rows = rows[rows["kind"] == kind]
    if rows.empty:
        return ""
    row = rows.iloc[0]
    if not np.isfinite(row["between"]):
        return f"\nwithin a stage {number_text(row['within'])}"
    return f"\nwithin {number_text(row['within'])}, between {number_text(row['between'])}, ratio {number_text(row['ratio'], 2)}×"


def draw_matrix(figure: Figure, axes: Axes, matrix: pd.DataFrame) -> None:
    """The matrix in the order it has, stage colours along two sides."""
    values = np.ma.masked_invalid(matrix.to_numpy(float))
    others = values[~np.eye(len(values), dtype=bool)].compressed()
    # Between the 1st and 99th percentile of pairs: neither one odd pair nor the diagonal may take the contrast from all others.
    low, high = np.percentile(others, [1, 99]) if len(others) else (0.0, 1.0)
    low, high = (low, high) if high - low > 1e-6 else (low - 0.01, high + 0.01)
    beyond = (values.min() < low, values[~np.eye(len(values), dtype=bool)].max() > high)
    extend = {(True, True): "both", (True, False): "min", (False, True): "max"}.get((bool(beyond[0]), bool(beyond[1])), "neither")
    colours = colormaps[SEQUENTIAL].with_extremes(bad=LIGHT)
    image = axes.imshow(values, cmap=colours, vmin=low, vmax=high, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    stages = [stage_of(label) for label in matrix.index]
    stage_strip(axes, stages, "top")
    stage_strip(axes, stages, "left")
    bar = figure.colorbar(image, ax=axes, shrink=0.85, aspect=30, pad=0.02, extend=extend)
    bar.outline.set_visible(False)  # type: ignore[operator]


def plot(tables: Tables, context: Context) -> Figure:
    kinds = [kind for kind in KINDS if f"similarity_{kind}" in tables]
    order = ward_order(square(tables["similarity_spectra"]), tables["clusters"])
    columns = min(2, len(kinds))
    rows = -(-len(kinds) // columns)
    width = SINGLE if columns == 1 else DOUBLE
    figure, grid = new_figure(width, 0.7 + rows * (0.4 + 0.86 * width / columns), rows, columns)
    figure.get_layout_engine().set(hspace=0.08)  # type: ignore[union-attr, call-arg]
    undefined: set[str] = set()
    for axes, kind in zip(grid.flat, kinds, strict=False):
        matrix = square(tables[f"similarity_{kind}"])
        apart = not comparable(matrix)
        placed = sorted(order, key=stage_of) if apart else order  # a stable sort: Ward's order within each stage
        matrix = matrix.reindex(index=placed, columns=placed)
        undefined |= set(matrix.index[matrix.isna().all(axis=1)])
        draw_matrix(figure, axes, matrix)
        axes.set_xlabel(f"{context.units} by stage, in Ward's order" if apart else f"{context.units} in Ward's order")
        axes.set_title(KINDS[kind] + summary_text(tables, kind), pad=11, linespacing=1.3)
    for axes in grid.flat[len(kinds) :]:
        axes.set_axis_off()
    stages = {stage_of(label) for label in order}
    legend_above(figure, stage_handles(stages))
    footer(
        figure,
        tables,
        context,
        count(len(order) - len(undefined), context.unit),
        f"{count(len(undefined), 'head')} undefined (grey)" if undefined else "",
        "within, between: mean over pairs of the same stage, of different stages"
        if "similarity_summary" in tables and len(stages) > 1
        else "",
        "colours: 1st to 99th percentile of pairs",
    )
    return figure


FIGURE = FIGURES.add(Drawing("head_similarity_matrix", {"similarity_spectra": (), "clusters": ("order",)}, plot, order=23))
