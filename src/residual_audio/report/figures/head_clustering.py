"""A map of the heads by their spectral fingerprints, and the tree behind the clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import scipy.cluster.hierarchy as hierarchy
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .drawing import FIGURES, Context, Drawing, Tables, count, footer, left_out
from .marks import BORDER, STRIP, legend_above, stage_handles, stage_strip
from .numbers import spread, stage_of
from .style import DOUBLE, GREY, MARKERS, SINGLE, new_figure, stage_colours


def marker(cluster: int) -> str:
    return MARKERS[(cluster - 1) % len(MARKERS)]


def draw_map(axes: Axes, clusters: pd.DataFrame) -> None:
    """One point per head: colour is the stage, shape is the cluster."""
    method = str(clusters["map"].iloc[0])
    for cluster, group in clusters.groupby("cluster"):
        spots: Any = {"s": 13, "alpha": 0.8, "linewidths": 0.3, "edgecolors": "white"}
        axes.scatter(group["x"], group["y"], c=stage_colours(group["stage"]), marker=marker(int(cluster)), **spots)  # type: ignore[call-overload]
    names = {"umap": ("UMAP", "UMAP 1", "UMAP 2"), "pca": ("PCA", "PC 1", "PC 2")}.get(method.lower(), (method, "x", "y"))
    axes.set(title=f"Map of the fingerprints ({names[0]})", xlabel=names[1], ylabel=names[2])


def cut_height(links: np.ndarray, clusters: pd.Series) -> float:
    """Where a level cut through the tree gives the clusters of the table; NaN if none does."""
    k = clusters.nunique()
    cut = hierarchy.fcluster(links, k, "maxclust")
    same = len(set(zip(cut, clusters, strict=True))) == k == len(set(cut))
    return float(links[-k:, 2][:2].mean()) if same and 1 < k < len(clusters) else float("nan")


def draw_tree(axes: Axes, spectra: pd.DataFrame, clusters: pd.DataFrame, unit: str) -> bool:
    """Ward's tree over the shares of variance; says whether the cut into clusters is drawn.

    Drawn here, because scipy's own plot goes through pyplot.
    """
    links = hierarchy.linkage(spectra.to_numpy(float), "ward", optimal_ordering=True)
    tree = hierarchy.dendrogram(links, no_plot=True)
    lines = [np.column_stack(pair) for pair in zip(tree["icoord"], tree["dcoord"], strict=True)]
    axes.add_collection(LineCollection(lines, colors="#303030", linewidths=0.5))
    axes.set_xlim(0, 10 * len(spectra))  # scipy puts the leaves at 5, 15, 25, …
    axes.set_ylim(0, 1.04 * max(float(np.max(tree["dcoord"])), 1e-12))
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    stage_strip(axes, [stage_of(spectra.index[leaf]) for leaf in tree["leaves"]], "bottom")
    axes.set(title="Ward's tree of the spectra", ylabel="distance (shares of variance)", xlabel=count(len(spectra), unit))
    axes.xaxis.labelpad = STRIP
    height = cut_height(links, clusters.set_index("label")["cluster"].reindex(spectra.index))
    if np.isfinite(height):
        axes.axhline(height, **BORDER)
    return bool(np.isfinite(height))


def plot(tables: Tables, context: Context) -> Figure:
    clusters = tables["clusters"]
    placed = clusters.dropna(subset=["x", "y", "cluster"])
    spectra = spread(tables["components"], "ratio").fillna(0.0) if "components" in tables else pd.DataFrame()
    spectra = spectra[(spectra > 0).any(axis=1)]
    tree = len(spectra) > 1
    figure, grid = new_figure(DOUBLE if tree else SINGLE, 3.3, 1, 1 + tree)
    draw_map(grid[0, 0], placed)
    cut = tree and draw_tree(grid[0, 1], spectra, clusters, context.unit)
    options: Any = {"linestyle": "", "color": GREY, "markersize": 4, "markeredgewidth": 0}
    shapes = [Line2D([], [], marker=marker(int(c)), label=f"cluster {int(c)}", **options) for c in sorted(placed["cluster"].unique())]
    handles = [*stage_handles(placed["stage"]), *shapes]
    legend_above(figure, handles, min(len(handles), 10 if tree else 5))
    footer(
        figure,
        tables,
        context,
        count(len(placed), context.unit),
        left_out(len(clusters) - len(placed), context.unit),
        "dashed: cut into clusters" if cut else "",
    )
    return figure


FIGURE = FIGURES.add(Drawing("head_clustering", {"clusters": ("x", "y")}, plot, order=24))
