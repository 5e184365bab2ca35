"""Shared marks: where a head stands on the depth axis, borders and names of stages, legends, strips."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, SupportsInt

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox, ScaledTranslation

from residual_audio.units import Unit

from .style import GREY, SMALL, stage_colour, stage_colours

STRIP = 10  # points of padding that leave room for a strip of stage colours
BORDER: dict[str, Any] = {"color": "#303030", "linewidth": 0.6, "linestyle": (0, (4, 3))}


def strip_positions(heads: pd.DataFrame) -> np.ndarray:
    """x of each head: its block's depth, heads side by side in their order, so that each block is equally wide."""
    place = heads.groupby("depth").cumcount().to_numpy(float)
    size = heads.groupby("depth")["depth"].transform("size").to_numpy(float)
    return heads["depth"].to_numpy(float) + 0.72 * ((place + 0.5) / size - 0.5)


def depth_axis(axes: Axes, rows: pd.DataFrame, inches: float) -> None:
    """Blocks along x, dashed borders between stages, and each stage's name and colour above. ``inches``: width of the axes."""
    depths = rows.drop_duplicates("depth").sort_values("depth")[["depth", "stage"]]
    first, last = int(depths["depth"].min()), int(depths["depth"].max())
    points = 72 * inches / (last - first + 1)  # width of one block
    axes.set_xticks(range(first, last + 1, max(1, int(np.ceil(10 / points)))))
    axes.set_xlim(first - 0.5, last + 0.5)
    axes.set_xlabel("block (depth)")
    behind = next(iter(rows.loc[rows["label"] == "embedding", "stage"]), None) if "label" in rows else None
    spans = depths.groupby("stage")["depth"].agg(["min", "max"])
    roomy = points * (spans["max"] - spans["min"] + 1).min() > 28

    def above(height: float) -> Any:
        """x in blocks, y in points above the axes: figures of any height look alike."""
        return axes.get_xaxis_transform() + ScaledTranslation(0, height / 72, axes.get_figure().dpi_scale_trans)  # type: ignore[union-attr]

    for stage, (low, high) in spans.iterrows():
        if low > first:
            axes.axvline(low - 0.5, **BORDER)
        bar = Line2D([low - 0.46, high + 0.46], [1, 1], color=stage_colour(stage), lw=3, solid_capstyle="butt")
        bar.set(transform=above(4), clip_on=False)
        axes.add_artist(bar)
        name = "emb." if stage == behind else f"stage {stage}" if roomy else f"S{stage}"
        axes.text((low + high) / 2, 1, name, transform=above(7), ha="center", va="bottom", fontsize=SMALL)


def title_above_stages(axes: Axes, text: str) -> None:
    """A title that leaves room for the stage names of :func:`depth_axis`."""
    axes.set_title(text, pad=17)


def head_rows(axes: Axes, labels: Sequence[str], inches: float) -> None:
    """Rows of an image are heads: stage borders, and names of the blocks, or of the stages where blocks are too thin to be named.

    ``inches`` is the height of the axes.
    """
    units = [Unit.parse(label) for label in labels]
    stages = [u.stage for u in units]
    for row in np.flatnonzero(np.diff(stages)):
        axes.axhline(row + 0.5, **BORDER)
    names = [f"S{u.stage}B{u.block}" for u in units]
    ticks = group_centres(names)
    if len(ticks) > 1 and min(np.diff(list(ticks.values()))) * 72 * inches / len(units) < 7.2:
        ticks = group_centres([f"stage {stage}" for stage in stages])
    axes.set_yticks(list(ticks.values()), labels=list(ticks))
    axes.tick_params(axis="y", length=0, pad=STRIP)
    stage_strip(axes, stages, "left")


def group_centres(names: Sequence[str]) -> dict[str, float]:
    """The middle row of each name."""
    rows = pd.Series(range(len(names)), dtype=float).groupby(list(names), sort=False)
    return {str(name): float(centre) for name, centre in rows.mean().items()}


def stage_strip(axes: Axes, stages: Iterable[SupportsInt], side: str) -> None:
    """A thin band of stage colours along the ``top``, ``left`` or ``bottom`` of an image, one cell per head."""
    cells = np.array(stage_colours(stages))
    band = axes.inset_axes((0, 0, 1, 1))
    band.set_axes_locator(partial(beside, axes, side))
    band.imshow(cells[:, None] if side == "left" else cells[None], aspect="auto", interpolation="nearest")
    band.set_axis_off()


def beside(axes: Axes, side: str, *_: Any) -> Bbox:
    """Where a strip of 5 points lies, 2 points away from its axes, in parts of the figure."""
    figure = axes.get_figure()
    box, unit = axes.get_window_extent(), figure.dpi / 72  # type: ignore[union-attr]
    pixels = {
        "left": (box.x0 - 7 * unit, box.y0, box.x0 - 2 * unit, box.y1),
        "top": (box.x0, box.y1 + 2 * unit, box.x1, box.y1 + 7 * unit),
        "bottom": (box.x0, box.y0 - 7 * unit, box.x1, box.y0 - 2 * unit),
    }[side]
    return Bbox.from_extents(*pixels).transformed(figure.transFigure.inverted())  # type: ignore[union-attr]


def stage_handles(stages: Iterable[SupportsInt]) -> list[Line2D]:
    """One dot per stage, for a legend."""
    options: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 4, "markeredgewidth": 0}
    return [
        Line2D([], [], color=stage_colour(s), label=f"stage {s}" if s >= 0 else "embedding", **options)
        for s in sorted({int(s) for s in stages})
    ]


def legend_above(figure: Figure, handles: Sequence[Line2D], columns: int = 0) -> None:
    """A legend outside all axes, so that it can cover no data."""
    figure.legend(handles=list(handles), loc="outside upper center", ncols=columns or len(handles))


def stage_points(axes: Axes, x: Any, y: Any, stages: Any, size: float = 9.0) -> None:
    """Points in the colours of their stages; incomplete pairs are left out."""
    x, y, stages = np.asarray(x, float), np.asarray(y, float), np.asarray(stages)
    both = np.isfinite(x) & np.isfinite(y)
    axes.scatter(x[both], y[both], s=size, c=stage_colours(stages[both]), alpha=0.75, linewidths=0, zorder=3)


def zero_line(axes: Axes, vertical: bool = False) -> None:
    (axes.axvline if vertical else axes.axhline)(0, color=GREY, linewidth=0.6, zorder=1)
