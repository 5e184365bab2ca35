"""Panel G: how the key measures are distributed over the heads of each stage."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from ...analysis.measures import MEASURES
from ...analysis.statistics import CAVEAT
from .drawing import FIGURES, Context, Drawing, Tables, count, footer, neighbours_text
from .numbers import in_order, number_text, p_text
from .style import DOUBLE, SMALL, new_figure, stage_colour

SHOWN = ("pca_99", "twonn", "mle", "participation_ratio", "effective_rank", "evr_1")


def draw_boxes(axes: Axes, heads: pd.DataFrame, measure: str) -> None:
    """A box (quartiles, whiskers to 1.5 IQR) and all heads as points, for each stage with a value."""
    stages = sorted(heads["stage"].unique())
    for place, stage in enumerate(stages):
        values = heads.loc[heads["stage"] == stage, measure].dropna().to_numpy(float)
        if not len(values):
            continue
        colour = stage_colour(stage)
        drawn = axes.boxplot(
            values, positions=[place], widths=0.62, patch_artist=True, showfliers=False, medianprops={"color": "black", "linewidth": 1.0},
            boxprops={"linewidth": 0.6}, whiskerprops={"linewidth": 0.6}, capprops={"linewidth": 0.6}, manage_ticks=False,
        )  # fmt: skip
        drawn["boxes"][0].set_facecolor((*colour, 0.35))
        spots = place + 0.5 * ((np.arange(len(values)) + 0.5) / len(values) - 0.5)
        axes.scatter(spots, values, s=3, color=colour, linewidths=0, alpha=0.8, zorder=3)
    axes.set_xticks(range(len(stages)), labels=[f"stage {stage}" for stage in stages])
    axes.set_xlim(-0.6, len(stages) - 0.4)


def anova_text(tables: Tables, context: Context, measure: str) -> str:
    """The analysis of variance over stages, if the run has one for this measure (and this dataset, if it has several)."""
    if "statistics" not in tables:
        return ""
    rows = tables["statistics"]
    rows = rows[(rows["scope"] == "stage") & (rows["measure"] == measure) & (rows["test"] == "anova")]
    rows = rows[rows["dataset"] == context.dataset] if len(rows) > 1 else rows
    if len(rows) != 1:
        return ""
    row = rows.iloc[0]
    return f"F = {number_text(row['statistic'], 1)}, {p_text(row['p'])}, η² = {number_text(row['effect'], 2)}"


def plot(tables: Tables, context: Context) -> Figure:
    heads = in_order(tables["heads"])
    figure, grid = new_figure(DOUBLE, 4.0, 2, 3)
    tested = False
    for axes, measure in zip(grid.flat, SHOWN, strict=True):
        draw_boxes(axes, heads, measure)
        axes.set_ylabel(MEASURES[measure].axis)
        text = anova_text(tables, context, measure)
        tested |= bool(text)
        axes.set_title(text, fontsize=SMALL)
        if measure == "evr_1":
            axes.set_ylim(0, 1.02)
            axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
        else:
            axes.set_ylim(bottom=0)
    holes = heads[list(SHOWN)].isna().sum()
    missing = [f"{number} in {MEASURES[str(measure)].short}" for measure, number in holes[holes > 0].items()]
    footer(
        figure,
        tables,
        context,
        count(len(heads), context.unit),
        neighbours_text(tables, context),
        f"boxes: quartiles, whiskers: 1.5 interquartile ranges, points: {context.units} from shallow to deep",
        "F, p, η²: one-way ANOVA over stages" if tested else "",
        CAVEAT if tested else "",
        f"{context.units} without a value left out: " + ", ".join(missing) if missing else "",
    )
    return figure


FIGURE = FIGURES.add(Drawing("panel_G", {"heads": SHOWN}, plot, order=16))
