"""What each block's attention is worth: accuracy lost without it, against its spectral entropy, and stage by stage."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...analysis.measures import MEASURES
from ...analysis.permutation import correlation
from .drawing import FIGURES, Context, Drawing, Tables, ablated_on, count, footer, left_out
from .marks import depth_axis, stage_points, title_above_stages, zero_line
from .numbers import number_text, p_text
from .style import DOUBLE, new_figure, stage_colour, stage_colours


def draw_bars(axes: Axes, blocks: pd.DataFrame) -> bool:
    """A bar per block; says whether there were intervals to draw."""
    axes.bar(blocks["depth"], blocks["drop"], width=0.7, color=stage_colours(blocks["stage"]), zorder=2)
    known = blocks.dropna(subset=["low", "high"])
    axes.vlines(known["depth"], known["low"], known["high"], color="black", linewidth=0.8, zorder=3)
    return not known.empty


def draw_stages(axes: Axes, blocks: pd.DataFrame, stages: list[int]) -> None:
    """Every block as a point and each stage's mean as a bar: two blocks are no box plot."""
    for place, stage in enumerate(stages):
        drops = blocks.loc[blocks["stage"] == stage, "drop"].to_numpy(float)
        if not len(drops):
            continue
        spots = place + 0.5 * ((np.arange(len(drops)) + 0.5) / len(drops) - 0.5)
        axes.scatter(spots, drops, s=14, color=stage_colour(stage), linewidths=0, zorder=3)
        axes.hlines(drops.mean(), place - 0.32, place + 0.32, color="black", linewidth=1.0, zorder=4)
    axes.set_xticks(range(len(stages)), labels=[str(stage) for stage in stages])
    axes.set_xlim(-0.6, len(stages) - 0.4)
    axes.set_xlabel("stage")


def plot(tables: Tables, context: Context) -> Figure:
    everything = tables["ablation_block"].sort_values("depth")
    rows = everything.rename(columns={"accuracy_drop": "drop", "accuracy_low": "low", "accuracy_high": "high"})
    rows = rows.reindex(columns=["stage", "block", "depth", "drop", "low", "high"])
    rows[["drop", "low", "high"]] *= 100
    blocks = rows.dropna(subset=["drop"])
    figure, grid = new_figure(DOUBLE, 2.7, 1, 3, sharey=True, width_ratios=[1.5, 1, 1])
    first, second, third = grid[0]
    intervals = draw_bars(first, blocks)
    depth_axis(first, rows, 2.5)
    first.set_ylabel(f"{MEASURES['accuracy_drop'].title} (percentage points)")
    title_above_stages(first, "(a) Without one block's attention")
    joined = blocks.merge(tables["blocks"][["stage", "block", "entropy"]], on=["stage", "block"], how="left")
    stage_points(second, joined["entropy"], joined["drop"], joined["stage"], size=16)
    pearson = correlation(joined["entropy"], joined["drop"], "pearson")
    second.set_xlabel(MEASURES["entropy"].axis)
    title_above_stages(second, f"(b) Pearson r = {number_text(pearson.value, 2)}, {p_text(pearson.p)}")
    draw_stages(third, blocks, sorted(rows["stage"].unique().tolist()))
    title_above_stages(third, "(c) By stage")
    for axes in grid[0]:
        zero_line(axes)
    footer(
        figure,
        tables,
        context,
        ablated_on(tables["ablation_block"]),
        count(len(blocks), "block"),
        left_out(len(rows) - len(blocks), "block"),
        f"{pearson.n} of them in (b)" if pearson.n < len(blocks) else "",
        "full − ablated, positive: the block helps",
        "lines in (a): 95 % paired bootstrap intervals" if intervals else "",
        "bars in (c): stage means",
        "p in (b): blocks as independent samples" if np.isfinite(pearson.p) else "",
    )
    return figure


FIGURE = FIGURES.add(Drawing("block_ablation", {"ablation_block": ("accuracy_drop",), "blocks": ("entropy",)}, plot, order=28))
