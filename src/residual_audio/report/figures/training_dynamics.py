"""What happened while gains were learned: losses and accuracy on the stopping part, epoch by epoch."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from .drawing import FIGURES, Context, Drawing, Tables, count, footer
from .marks import legend_above
from .style import DOUBLE, PALETTE, new_figure, plain

SHOWN = {
    "train_loss": "loss on what is learned from",
    "stop_loss": "loss on the stopping part",
    "stop_accuracy": "accuracy on the stopping part (%)",
}


def draw_runs(axes: Axes, runs: pd.DataFrame, column: str, colour: str) -> None:
    """One thin line per fold and repeat, with a dot at the epoch that was kept; the mean over those still running as a thick one."""
    scale = 100 if column == "stop_accuracy" else 1
    for _, run in runs.groupby(["fold", "repeat"]):
        axes.plot(run["epoch"], scale * run[column], color=colour, linewidth=0.5, alpha=0.5, zorder=2)
        kept = run[run["kept"]]
        axes.scatter(kept["epoch"], scale * kept[column], s=8, color=colour, linewidths=0, zorder=4)
    mean = runs.groupby("epoch")[column].mean()
    axes.plot(mean.index, scale * mean, color=colour, linewidth=1.3, zorder=3)


def plot(tables: Tables, context: Context) -> Figure:
    training = tables["training"].assign(
        **{c: d for c, d in (("method", "adapter"), ("fold", 0), ("repeat", 0)) if c not in tables["training"]}
    )
    methods = list(training["method"].unique())
    figure, grid = new_figure(DOUBLE, 2.7, 1, len(SHOWN))
    for axes, (column, title) in zip(grid[0], SHOWN.items(), strict=True):
        for place, method in enumerate(methods):
            runs = training[(training["method"] == method) & np.isfinite(training[column])]
            if len(runs):
                draw_runs(axes, runs, column, PALETTE[place % len(PALETTE)])
        axes.set(title=title, xlabel="epoch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlim(left=0)
    if len(methods) > 1:
        legend_above(
            figure, [Line2D([], [], color=PALETTE[i % len(PALETTE)], label=plain(m)) for i, m in enumerate(methods)], min(6, len(methods))
        )
    runs = training.groupby(["method", "fold", "repeat"]).ngroups
    footer(figure, tables, context, count(runs, "training"), "epoch 0: the model as it was", "dots: the epoch that was kept", "thick: mean")
    return figure


FIGURE = FIGURES.add(Drawing("training_dynamics", {"training": ("stop_loss", "stop_accuracy")}, plot, order=46))
