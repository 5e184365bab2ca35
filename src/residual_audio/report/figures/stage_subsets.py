"""Which stages are worth retuning: test accuracy of every subset, over a chart of what each subset holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .drawing import FIGURES, Context, Drawing, Tables, count, footer
from .marks import legend_above
from .style import DOUBLE, GREY, LIGHT, SMALL, new_figure, plain, stage_colour

BAR, WINNER = "#9AA5AE", "#3B4650"


def draw_bars(axes: Axes, rows: pd.DataFrame, chosen: int) -> bool:
    """A bar per subset, dark for the chosen one, and a ring at its stopping accuracy; says whether there were intervals."""
    x = np.arange(len(rows))
    axes.bar(x, rows["accuracy"], width=0.68, color=[WINNER if i == chosen else BAR for i in x], zorder=2)
    known = rows[["low", "high"]].notna().all(axis=1).to_numpy()
    axes.vlines(x[known], rows["low"][known], rows["high"][known], color="black", linewidth=0.8, zorder=3)
    axes.plot(
        x, rows["stop_accuracy"], "o", markersize=3.6, markerfacecolor="white", markeredgecolor="#D55E00", markeredgewidth=0.9, zorder=4
    )
    axes.set_xlim(-0.6, len(rows) - 0.4)
    axes.set_ylabel("accuracy (%)")
    axes.tick_params(axis="x", length=0, labelbottom=False)
    return bool(known.any())


def draw_chart(axes: Axes, subsets: list[list[str]], parts: list[str]) -> None:
    """Below each bar a column of dots: coloured where the stage (or block) is in the subset."""
    for row, part in enumerate(parts):
        axes.axhspan(row - 0.5, row + 0.5, color="#F5F5F5" if row % 2 else "white", zorder=0)
        inside = [i for i, subset in enumerate(subsets) if part in subset]
        outside = [i for i in range(len(subsets)) if i not in inside]
        axes.scatter(outside, [row] * len(outside), s=14, color=LIGHT, linewidths=0, zorder=2)
        axes.scatter(inside, [row] * len(inside), s=22, color=stage_colour(row), linewidths=0, zorder=3)
    axes.set_yticks(range(len(parts)), labels=parts)
    axes.set_ylim(len(parts) - 0.5, -0.5)
    names = ["+".join(p.removeprefix("S") for p in subset) for subset in subsets]
    room = 72 * 0.9 * DOUBLE / len(names) / (0.62 * SMALL)  # letters beside each other below a bar
    axes.set_xticks(range(len(names)), labels=names, rotation=90 if max(map(len, names)) > room else 0)
    axes.tick_params(length=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)


def plot(tables: Tables, context: Context) -> Figure:
    table = tables["search"].dropna(subset=["accuracy", "stop_accuracy", "size"]).copy()
    best = table.sort_values("stop_accuracy", ascending=False, kind="stable")["trial"].iloc[0]
    table = table.assign(parts=[str(t).split("+") for t in table["trial"]]).sort_values(["size", "trial"], kind="stable")
    table = table.reset_index(drop=True).reindex(columns=[*table.columns, *({"low", "high", "plain"} - set(table.columns))])
    table[["accuracy", "stop_accuracy", "low", "high", "plain"]] *= 100.0
    parts = sorted({p for subset in table["parts"] for p in subset})
    figure, grid = new_figure(DOUBLE, 2.5 + 0.16 * len(parts), 2, 1, sharex=True, height_ratios=[2.4, 0.28 * len(parts)])
    above, below = grid[:, 0]
    intervals = draw_bars(above, table, int(np.flatnonzero(table["trial"] == best)[0]))
    base = table["plain"].dropna()
    if len(base) and np.ptp(base) < 1e-9:
        above.axhline(base.iloc[0], color=GREY, linewidth=0.8, linestyle="--", zorder=1)
    above.set_title(f"Retuning subsets of {'stages' if all('B' not in p for p in parts) else 'blocks'}; chosen: {plain(best)}")
    draw_chart(below, table["parts"].tolist(), parts)
    below.set_xlabel("subset")
    square: dict[str, Any] = {"linestyle": "", "marker": "s", "markersize": 5, "markeredgewidth": 0}
    handles = [
        Line2D([], [], color=BAR, label="test", **square),
        Line2D([], [], color=WINNER, label="test, of the chosen subset", **square),
        Line2D([], [], linestyle="", marker="o", markersize=3.6, markerfacecolor="white", markeredgecolor="#D55E00",
               label="stopping part (chooses)"),
    ]  # fmt: skip
    if len(base) and np.ptp(base) < 1e-9:
        handles.append(Line2D([], [], color=GREY, linewidth=0.8, linestyle="--", label="as it is"))
    legend_above(figure, handles)
    footer(
        figure, tables, context, count(len(table), "subset"), "chosen by the stopping part, not by the test",
        "lines: 95 % intervals over groups of clips" if intervals else "",
    )  # fmt: skip
    return figure


FIGURE = FIGURES.add(Drawing("stage_subsets", {"search": ("accuracy", "stop_accuracy", "size")}, plot, order=42))
