"""What is heard when: the probability of every text over a recording, and the seconds where it is heard."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .drawing import FIGURES, Context, Drawing, Tables, count, footer
from .marks import legend_above
from .style import DOUBLE, GREY, new_figure, plain, stage_colour

MINUTES_FROM = 300  # seconds: longer recordings have their axis in minutes


def plot(tables: Tables, context: Context) -> Figure:
    line = tables["timeline"]
    heard = tables.get("heard", pd.DataFrame(columns=["text", "start", "end"]))  # nothing may have been heard
    texts = list(dict.fromkeys(line["text"]))
    minutes = line["end"].iloc[-1] > MINUTES_FROM
    unit = 60.0 if minutes else 1.0
    figure, grid = new_figure(DOUBLE, 2.2 + 0.16 * len(texts), 2, 1, sharex=True, height_ratios=[3, 0.5 + 0.3 * len(texts)])
    upper, lower = grid[:, 0]
    handles = []
    edges = np.unique(line[["start", "end"]]) / unit
    for i, text in enumerate(texts):
        colour = stage_colour(i)
        upper.stairs(line.loc[line["text"] == text, "probability"], edges, color=colour, linewidth=0.9, baseline=None)
        parts = heard[heard["text"] == text]
        lower.barh([i] * len(parts), (parts["end"] - parts["start"]) / unit, left=parts["start"] / unit, height=0.7, color=colour)
        handles.append(Line2D([], [], color=colour, linewidth=1.5, label=plain(text, 24)))
    upper.set(ylabel="probability", ylim=(0, 1.02))
    lower.set_yticks(range(len(texts)), labels=[plain(text, 24) for text in texts])
    lower.set(xlabel="minutes" if minutes else "seconds", ylim=(len(texts) - 0.5, -0.5), xlim=(0, edges[-1]))
    for i in range(len(texts)):
        lower.axhline(i, color=GREY, linewidth=0.3, zorder=0)
    legend_above(figure, handles, min(4, len(handles)))
    windows = tables["windows"][["start", "end"]].drop_duplicates()
    footer(
        figure, tables, context, f"{count(len(windows), 'window')} of {(windows['end'] - windows['start']).max():g} s",
        "probability: mean over the windows at that time", "bars: heard",
    )  # fmt: skip
    return figure


FIGURE = FIGURES.add(Drawing("over_time", {"timeline": ("probability",), "windows": ("probability",)}, plot, order=45, default=False))
