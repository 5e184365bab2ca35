"""What accuracy costs: methods of a comparison by the numbers they train."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from matplotlib.transforms import Bbox, ScaledTranslation

from .drawing import FIGURES, Context, Drawing, Tables, count, footer
from .marks import legend_above
from .numbers import SUPERSCRIPT
from .pairs import looks
from .style import GREY, SINGLE, SMALL, new_figure, plain

APART = 7.0  # points between methods that train equally many numbers
RINGS = (6.0, 10.0, 15.0, 21.0, 28.0, 36.0, 46.0)  # points from a marker to its name, tried in this order
NEAR = 10.0  # within so many points no line is needed


def parameter_axis(axes: Axes, trained: np.ndarray) -> None:
    """Logarithmic, with a place for zero at the left."""
    positive = trained[trained > 0]
    first = math.floor(math.log10(positive.min())) if len(positive) else 0
    last = max(first + 1, math.ceil(math.log10(positive.max()))) if len(positive) else 1
    axes.set_xscale("symlog", linthresh=10.0**first, linscale=0.7)
    zero = bool((trained == 0).any())
    # Methods that train nothing stand side by side about zero: the more there are, the more room.
    low = -min(1.0, 0.35 + 0.1 * (trained == 0).sum()) * 10.0**first if zero else 0.6 * positive.min()
    high = 4.0 * max(trained.max(), 10.0**first)
    axes.set_xlim(low, high)
    decades = [10.0**e for e in range(first, last + 1)]
    axes.xaxis.set_major_locator(FixedLocator([x for x in [0.0, *decades] if low <= x <= high]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: "0" if x == 0 else f"10{str(round(math.log10(x))).translate(SUPERSCRIPT)}"))
    axes.set_xlabel("trained numbers")


def shifts(trained: np.ndarray) -> np.ndarray:
    """Points to the right for every method, so that methods that train equally many numbers stand side by side."""
    moved = np.zeros(len(trained))
    for value in np.unique(trained):
        equal = np.flatnonzero(trained == value)
        moved[equal] = APART * (np.arange(len(equal)) - (len(equal) - 1) / 2)
    return moved


def shared(one: Bbox, other: Bbox) -> float:
    """The area that two boxes have in common."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return max(0.0, width) * max(0.0, height)


def candidates(width: float, height: float, unit: float) -> Iterator[tuple[float, float, bool]]:
    """Where the middle of a name may stand, from its marker; nearest first, and whether it needs a line to be known as its own."""
    for ring in RINGS:
        away = ring * unit
        for dx in (away + width / 2, -away - width / 2):
            yield from ((dx, dy, ring > NEAR) for dy in (0.0, height, -height))
        for dy in (away + height / 2, -away - height / 2):
            yield from ((dx, dy, ring > NEAR) for dx in (0.0, width / 2, -width / 2))


def covered(box: Bbox, line: list[Bbox], taken: list[Bbox], inside: Bbox) -> float:
    """How much of a name lies on others or outside, in squared pixels, and what its line crosses."""
    beyond = box.width * box.height - shared(box, inside)
    return beyond + sum(shared(box, other) + sum(shared(dot, other) for dot in line) for other in taken)


def line_dots(x: float, y: float, dx: float, dy: float, unit: float) -> list[Bbox]:
    """A line as small boxes, without its end at the marker."""
    steps = np.linspace(0.25, 1.0, 12)
    return [Bbox.from_bounds(x + t * dx - unit / 2, y + t * dy - unit / 2, unit, unit) for t in steps]


def name_points(figure: Figure, axes: Axes, names: list[str], spots: np.ndarray, taken: list[Bbox], colours: list) -> None:
    """Write every name near its marker where it covers least: no other name, marker or interval. A far one gets a thin line.

    ``spots`` and ``taken`` are in pixels of the figure as it is laid out; names take no part in the layout, so it stays.
    """
    inside, unit = axes.get_window_extent().frozen(), figure.dpi / 72
    for own, (name, (x, y), colour) in enumerate(zip(names, spots, colours, strict=True)):
        trial = axes.annotate(name, (0, 0), xycoords="axes fraction", fontsize=SMALL, ha="center", va="center")
        width, height = trial.get_window_extent().size
        trial.remove()
        others = [box for i, box in enumerate(taken) if i != own]
        best: tuple[float, float, float, bool] | None = None
        for dx, dy, far in candidates(width, height, unit):
            box = Bbox.from_bounds(x + dx - width / 2, y + dy - height / 2, width, height).padded(unit)
            gaps = np.hypot(*np.maximum(0, np.maximum(box.min - spots, spots - box.max)).T)
            far = far or gaps.argmin() != own  # nearer to another marker, it would be read as that one's name
            cost = covered(box, line_dots(x, y, dx, dy, unit) if far else [], others, inside)
            if best is None or cost < best[0]:
                best = (cost, dx, dy, far)
            if cost == 0:
                break
        assert best is not None
        _, dx, dy, far = best
        line = {"arrowstyle": "-", "color": GREY, "linewidth": 0.4, "shrinkA": 1, "shrinkB": 3} if far else None
        placed = axes.annotate(
            name, tuple(axes.transAxes.inverted().transform((x, y))), xycoords="axes fraction", xytext=(dx / unit, dy / unit),
            textcoords="offset points", fontsize=SMALL, color=colour, ha="center", va="center", arrowprops=line, zorder=5,
        )  # fmt: skip
        placed.set_in_layout(False)
        taken.append(Bbox.from_bounds(x + dx - width / 2, y + dy - height / 2, width, height))
        if far:
            taken.extend(line_dots(x, y, dx, dy, unit)[:-1])


def plot(tables: Tables, context: Context) -> Figure:
    rows = tables["comparison_summary"].dropna(subset=["trained", "accuracy"]).reset_index(drop=True)
    kept = [c for c in ("adaptation", "classifier") if c in rows]
    rows = rows.reindex(columns=[*kept, "method", "trained", "accuracy", "low", "high"]).astype(
        dict.fromkeys(("accuracy", "low", "high"), float)
    )
    rows[["accuracy", "low", "high"]] *= 100
    figure, grid = new_figure(SINGLE, 3.0)
    axes = grid[0, 0]
    trained = rows["trained"].to_numpy(float)
    parameter_axis(axes, trained)
    intervals = bool(rows[["low", "high"]].notna().all(axis=1).any())
    ends = pd.concat([rows["accuracy"], rows["low"], rows["high"]]).dropna()
    room = max(4.0, 0.14 * (ends.max() - ends.min()))
    axes.set_ylim(max(0.0, ends.min() - room), min(100.0 + room / 3, ends.max() + room))
    axes.set_ylabel("accuracy (%)")
    axes.set_title("Accuracy and what is trained for it")
    look = looks(rows)
    colours = look.colours
    moves = [axes.transData + ScaledTranslation(s / 72, 0, figure.dpi_scale_trans) for s in shifts(trained)]
    for row, colour, move, marker in zip(rows.itertuples(), colours, moves, look.markers, strict=True):
        if np.isfinite([row.low, row.high]).all():
            axes.plot([row.trained] * 2, [row.low, row.high], color=colour, linewidth=0.9, transform=move, zorder=2)
        axes.plot([row.trained], [row.accuracy], marker, color=colour, markersize=4.5, markeredgewidth=0, transform=move, zorder=3)
    footer(
        figure, tables, context, count(len(rows), "method"), "lines: 95 % intervals over groups of clips" if intervals else "",
        "side by side: equally many numbers" if len(np.unique(trained)) < len(trained) else "",
    )  # fmt: skip
    if look.handles:
        legend_above(figure, look.handles, 4)
        return figure
    figure.draw_without_rendering()  # where everything is, in pixels
    spots = np.array([move.transform((x, y)) for move, x, y in zip(moves, trained, rows["accuracy"], strict=True)]).reshape(-1, 2)
    half = 3.0 * figure.dpi / 72
    taken = [Bbox.from_extents(x - half, y - half, x + half, y + half) for x, y in spots]
    for move, row in zip(moves, rows.itertuples(), strict=True):
        if np.isfinite([row.low, row.high]).all():
            (x, low), (_, high) = move.transform([(row.trained, row.low), (row.trained, row.high)])
            taken.append(Bbox.from_extents(x - half / 2, low, x + half / 2, high))
    name_points(figure, axes, [plain(m, 24) for m in rows["method"]], spots, taken, colours)
    return figure


FIGURE = FIGURES.add(Drawing("accuracy_vs_parameters", {"comparison_summary": ("trained", "accuracy")}, plot, order=40))
