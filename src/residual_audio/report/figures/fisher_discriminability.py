"""How well each head separates the classes, and along which of its axes."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ...analysis.measures import MEASURES
from .drawing import FIGURES, Context, Drawing, Tables, count, footer, left_out
from .marks import STRIP, depth_axis, stage_strip, strip_positions, title_above_stages
from .numbers import in_order, spread, stage_of
from .panels import draw_measure
from .style import DOUBLE, LIGHT, SEQUENTIAL, SINGLE, new_figure

TOP = 15  # or a third of all heads, if that is fewer


def best(heads: pd.DataFrame) -> pd.DataFrame:
    """The heads with the largest scores, best first."""
    scored = heads.dropna(subset=["fisher"]).sort_values("fisher", ascending=False, kind="stable")
    return scored.head(min(TOP, -(-len(scored) // 3)))


def draw_axes(figure: Figure, axes: Axes, components: pd.DataFrame, labels: list[str]) -> None:
    """Score along each principal axis, one row per head."""
    along = spread(components[components["label"].isin(labels)], "fisher").reindex(labels)
    values = np.ma.masked_invalid(along.to_numpy(float))
    colours = colormaps[SEQUENTIAL].with_extremes(bad=LIGHT)
    extent = (0.5, along.shape[1] + 0.5, len(labels) - 0.5, -0.5)
    image = axes.imshow(values, cmap=colours, vmin=0, aspect="auto", interpolation="nearest", extent=extent)
    axes.set_yticks(range(len(labels)), labels=labels)
    axes.tick_params(axis="y", length=0, pad=STRIP)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=2))
    axes.set_xlabel("principal axis")
    axes.spines[:].set_visible(False)
    stage_strip(axes, [stage_of(label) for label in labels], "left")
    bar = figure.colorbar(image, ax=axes, aspect=30, pad=0.02)
    bar.set_label(f"{MEASURES['fisher'].title} along the axis")


def plot(tables: Tables, context: Context) -> Figure:
    heads = in_order(tables["heads"])
    top = best(heads)
    labels = top["label"].tolist()
    components = tables.get("components", pd.DataFrame(columns=["label", "fisher"]))
    by_axis = components.loc[components["label"].isin(labels), "fisher"].notna().any()
    width = DOUBLE if by_axis else SINGLE
    figure, grid = new_figure(width, 2.9, 1, 2 if by_axis else 1)
    left = grid[0, 0]
    draw_measure(left, heads, "fisher", ceiling=False)
    rings = strip_positions(heads)[top.index]
    left.scatter(rings, top["fisher"], s=16, facecolors="none", edgecolors="black", linewidths=0.5, zorder=5)
    depth_axis(left, heads, 0.85 * width / (2 if by_axis else 1))
    left.set_ylim(bottom=0)
    left.set_ylabel(MEASURES["fisher"].axis)
    title_above_stages(left, f"Discriminability of each {context.unit}")
    if by_axis:
        draw_axes(figure, grid[0, 1], components, labels)
        title_above_stages(grid[0, 1], f"The {len(labels)} best {context.units}, axis by axis")
    missing = int(heads["fisher"].isna().sum())
    footer(
        figure,
        tables,
        context,
        count(len(heads) - missing, context.unit),
        left_out(missing, context.unit),
        "black bars: block means",
        f"rings: the {len(labels)} best {context.units}",
    )
    return figure


FIGURE = FIGURES.add(Drawing("fisher_discriminability", {"heads": ("fisher",)}, plot, order=26))
