"""Methods and classifiers in one figure: a few are named beside their marks, of many a colour says the method and a mark the classifier."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
from matplotlib.lines import Line2D

from .style import GREY, MARKERS, plain, stage_colour

MOST_NAMED = 10
Colour = tuple[float, float, float]


@dataclass(frozen=True)
class Looks:
    """Of every row; ``handles``: what a legend says, empty where rows are named instead."""

    colours: list[Colour]
    markers: list[str]
    handles: list[Line2D]


def looks(rows: pd.DataFrame) -> Looks:
    """Of the lines of a comparison, in their order."""
    if len(rows) <= MOST_NAMED or not {"adaptation", "classifier"} <= set(rows):
        return Looks([stage_colour(i) for i in range(len(rows))], [MARKERS[i % len(MARKERS)] for i in range(len(rows))], [])
    colour = {name: stage_colour(i) for i, name in enumerate(dict.fromkeys(rows["adaptation"]))}
    marker = {name: MARKERS[i % len(MARKERS)] for i, name in enumerate(dict.fromkeys(rows["classifier"]))}
    handles = [
        Line2D([], [], color=c, linestyle="", marker="_", markersize=8, markeredgewidth=2.5, label=plain(name, 24))
        for name, c in colour.items()
    ]
    handles += [Line2D([], [], color=GREY, linestyle="", marker=m, markersize=4, label=plain(name, 24)) for name, m in marker.items()]
    return Looks([colour[a] for a in rows["adaptation"]], [marker[c] for c in rows["classifier"]], handles)
