"""Which classes make a head speak louder than it usually does."""

from __future__ import annotations

import numpy as np
import pandas as pd
import scipy.cluster.hierarchy as hierarchy
from matplotlib import colormaps
from matplotlib.figure import Figure

from residual_audio.units import Unit

from .drawing import FIGURES, Context, Drawing, Tables, count, footer, left_out
from .marks import head_rows
from .numbers import labelled, stage_of
from .style import DIVERGING, DOUBLE, LIGHT, new_figure, plain

LIMIT = 3.0  # standard deviations at the ends of the colour scale


def standardised(activation: pd.DataFrame) -> pd.DataFrame:
    """Each head's row with mean 0 and standard deviation 1 over classes; NaN for a head that is the same for all."""
    deviation = activation.std(axis=1, ddof=0)
    return activation.sub(activation.mean(axis=1), axis=0).div(deviation.where(deviation > 0), axis=0)


def clustered(table: pd.DataFrame) -> list[int]:
    """Positions of the columns with like ones side by side (Ward's leaf order)."""
    if table.shape[1] < 3:
        return list(range(table.shape[1]))
    points = table.fillna(0.0).to_numpy(float).T
    return [int(leaf) for leaf in hierarchy.leaves_list(hierarchy.linkage(points, "ward", optimal_ordering=table.shape[1] <= 300))]


def plot(tables: Tables, context: Context) -> Figure:
    activation = labelled(tables["class_activation"])
    activation = activation.loc[sorted(activation.index, key=Unit.parse)].astype(float)
    scores = standardised(activation)
    silent = scores.isna().all(axis=1)
    order = clustered(scores)
    figure, grid = new_figure(DOUBLE, min(6.6, 2.6 + 0.022 * len(scores)))
    axes = grid[0, 0]
    colours = colormaps[DIVERGING].with_extremes(bad=LIGHT)
    values = np.ma.masked_invalid(scores.to_numpy(float)[:, order])
    image = axes.imshow(values, cmap=colours, vmin=-LIMIT, vmax=LIMIT, aspect="auto", interpolation="nearest")
    head_rows(axes, list(scores.index), inches=figure.get_figheight() - 1.9)
    step = int(np.ceil(len(order) * 8.0 / (72 * 5.7)))  # a name needs 8 points of width
    named = range(0, len(order), step)
    axes.set_xticks(named, labels=[plain(scores.columns[order[i]], 22) or "(no name)" for i in named], rotation=90)
    axes.tick_params(axis="x", length=0, pad=2)
    axes.spines[:].set_visible(False)
    axes.set_title(f"Activation of each {context.unit} by class")
    bar = figure.colorbar(image, ax=axes, shrink=0.8, aspect=40, pad=0.01, extend="both")
    bar.set_label("activation (s.d.)")
    footer(
        figure,
        tables,
        context,
        count(int((~silent).sum()), context.unit),
        f"{len(order)} classes in Ward's order",
        f"every {step}th named" if step > 1 else "",
        left_out(int(silent.sum())),
        "activation: mean norm of the head's output, standardised over classes in each head",
        "dashed: stage border" if len({stage_of(label) for label in scores.index}) > 1 else "",
    )
    return figure


FIGURE = FIGURES.add(Drawing("class_activation_heatmap", {"class_activation": ()}, plot, order=25))
