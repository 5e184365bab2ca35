"""How alike heads are: cosine of their spectra and, where the run has them, overlap of their subspaces; in Ward's order."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.figure import Figure

from .drawing import Context, Drawing, Tables, count, footer
from .marks import legend_above, stage_handles, stage_strip
from .numbers import number_text, square, stage_of
from .style import DOUBLE, LIGHT, SEQUENTIAL, SINGLE, new_figure

KINDS = {"spectra": "Cosine of spectra", "subspaces": "Overlap of subspaces", "cka": "Linear CKA"}


def ward_order(matrix: pd.DataFrame, clusters: pd.DataFrame) -> list[str]:
    """Labels in the leaf order of the clustering; heads that it does not know come last."""
    leaves = clusters.dropna(subset=["order"]).sort_values("order")["label"]
    known = [label for label in leaves if label in matrix.index]
    return known + [label for label in matrix.index if label not in set(known)]


def summary_text(tables: Tables, kind: str) -> str:
    """Mean similarity within and between stages, as the analysis found it."""
    if "similarity_summary" not in tables:
        return ""
    rows = tables["similarity_summary"]
    rows = rows[rows["kind"].astype(str).str.removeprefix("similarity_") == kind]
    if rows.empty:
        return ""
    row = rows.iloc[0]
    if not np.isfinite(row["between"]):
        return f"\nwithin the stage {number_text(row['within'])}"
    return f"\nwithin {number_text(row['within'])}, between {number_text(row['between'])}, ratio {number_text(row['ratio'], 2)}×"


def plot(tables: Tables, context: Context) -> Figure:
    kinds = [kind for kind in KINDS if f"similarity_{kind}" in tables]
    matrices = {kind: square(tables[f"similarity_{kind}"]) for kind in kinds}
    order = ward_order(matrices[kinds[0]], tables["clusters"])
    width = SINGLE if len(kinds) == 1 else DOUBLE
    figure, grid = new_figure(width, 1.0 + 0.86 * width / len(kinds), 1, len(kinds))
    undefined = 0
    for axes, kind in zip(grid[0], kinds, strict=True):
        matrix = matrices[kind].reindex(index=order, columns=order)
        values = np.ma.masked_invalid(matrix.to_numpy(float))
        undefined = max(undefined, int(matrix.isna().all(axis=1).sum()))
        stages = [stage_of(label) for label in order]
        colours = colormaps[SEQUENTIAL].with_extremes(bad=LIGHT)
        # From the 1st percentile: one odd pair must not take the contrast from all others.
        low = float(np.nanpercentile(matrix.to_numpy(float), 1)) if values.count() else 0.0
        image = axes.imshow(values, cmap=colours, vmin=min(low, 0.99), vmax=1, interpolation="nearest")
        axes.set(xticks=[], yticks=[], xlabel="heads in Ward's order")
        axes.spines[:].set_visible(False)
        stage_strip(axes, stages, "top")
        stage_strip(axes, stages, "left")
        axes.set_title(KINDS[kind] + summary_text(tables, kind), pad=11, linespacing=1.3)
        bar = figure.colorbar(image, ax=axes, shrink=0.85, aspect=30, pad=0.02, extend="min" if values.min() < low else "neither")
        bar.outline.set_visible(False)  # type: ignore[operator]
    legend_above(figure, stage_handles([stage_of(label) for label in order]))
    footer(
        figure,
        tables,
        context,
        count(len(order) - undefined, "head"),
        f"{count(undefined, 'head')} undefined (grey)" if undefined else "",
        "within, between: mean over pairs of the same stage, of different stages" if "similarity_summary" in tables else "",
    )
    return figure


FIGURE = Drawing("head_similarity_matrix", {"similarity_spectra": (), "clusters": ("order",)}, plot)
