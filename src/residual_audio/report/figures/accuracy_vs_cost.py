"""What adapting is worth and what it costs: accuracy on the task against accuracy elsewhere, trained numbers and time in one picture."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator
from matplotlib.transforms import Bbox

from .accuracy_vs_parameters import name_points
from .drawing import FIGURES, Context, Drawing, Tables, count, footer
from .marks import legend_above
from .pairs import Colour, looks
from .style import GREY, SINGLE, new_figure, plain

SMALLEST, LARGEST = 3.0, 10.0  # points: the diameters of one trained number and of ten million


def diameters(trained: np.ndarray) -> np.ndarray:
    """By the order of magnitude of the trained numbers; methods that train none are as small as can be."""
    orders = np.log10(np.maximum(trained, 1.0)) / 7.0
    return SMALLEST + (LARGEST - SMALLEST) * np.clip(orders, 0, 1)


def written(trained: float, seconds: float) -> str:
    """``512 · 8 s``: trained numbers and seconds per fold."""
    size = f"{trained / 1e6:.1f}M" if trained >= 1e6 else f"{trained / 1e3:.1f}k" if trained >= 1e4 else f"{trained:.0f}"
    return f"{size} · {seconds:.0f} s"


def draw_ways(axes: Axes, tables: Tables, colours: dict[str, Colour], column: str) -> list[np.ndarray]:
    """Every method at parts of its strength, where a comparison has them: the points of the curves."""
    table, ways = tables.get("comparison_strength"), []
    if table is None or column not in table:
        return []
    for method, way in table.dropna(subset=[column]).groupby("method", sort=False):
        points, colour = 100 * way.sort_values("tau")[[column, "accuracy"]].to_numpy(float), colours[str(method)]
        axes.plot(*points.T, "-", marker=".", color=colour, linewidth=0.7, markersize=2, alpha=0.7, zorder=2)
        ways.append(points)
    return ways


def along(points: np.ndarray, dots: int = 16) -> list[Bbox]:
    """A curve in pixels as small boxes, for names to keep off."""
    steps = np.linspace(0, len(points) - 1, dots * (len(points) - 1) + 1)
    places = zip(*(np.interp(steps, np.arange(len(points)), column) for column in points.T), strict=True)
    return [Bbox.from_bounds(x - 1, y - 1, 2, 2) for x, y in places]


def plot(
    tables: Tables,
    context: Context,
    column: str = "other",
    across: str = "accuracy on other data (%)",
    up: str = "accuracy on the task (%)",
    title: str = "Accuracy and what it costs elsewhere",
) -> Figure:
    """``column``: what stands for elsewhere."""
    rows = tables["comparison_summary"].dropna(subset=["accuracy", column]).reset_index(drop=True)
    look = looks(rows)
    figure, grid = new_figure(SINGLE, 3.2)
    axes = grid[0, 0]
    x, y = 100 * rows[column].to_numpy(float), 100 * rows["accuracy"].to_numpy(float)
    low, high = (100 * rows[name].to_numpy(float) for name in ("low", "high"))
    sizes = diameters(rows["trained"].to_numpy(float))
    room = max(4.0, 0.15 * np.ptp(x)), max(4.0, 0.12 * (np.nanmax(high) - np.nanmin(low)))
    axes.set_xlim(max(-2.0, x.min() - room[0]), min(104.0, x.max() + room[0]))
    axes.set_ylim(max(0.0, np.nanmin(low) - room[1]), min(104.0, np.nanmax(high) + room[1]))
    for axis in (axes.xaxis, axes.yaxis):  # room beyond 100 % is for markers, not for numbers
        axis.set_major_locator(FixedLocator([tick for tick in axis.get_majorticklocs() if 0 <= tick <= 100]))
    axes.axvline(x[0], color=GREY, linewidth=0.5, linestyle=":", zorder=1)
    for i in range(len(rows)):
        marker = look.markers[i] if look.handles else "o"
        axes.plot([x[i]] * 2, [low[i], high[i]], color=look.colours[i], linewidth=0.9, zorder=2)
        axes.plot([x[i]], [y[i]], marker, color=look.colours[i], markersize=sizes[i], markeredgewidth=0, zorder=3 + 1 / sizes[i])
    ways = draw_ways(axes, tables, dict(zip(rows["method"], look.colours, strict=True)), column)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.set_title(title)
    footer(
        figure, tables, context, count(len(rows), "method"), "lines: 95 % intervals", f"dotted: {plain(rows['method'][0], 24)}",
        "larger: more trained numbers" if look.handles else "below names: trained numbers · seconds per fold",
        "curves: parts of the strength τ" if ways else "",
    )  # fmt: skip
    if look.handles:
        legend_above(figure, look.handles, 4)
        return figure
    figure.draw_without_rendering()
    spots = axes.transData.transform(np.column_stack([x, y]))
    half = sizes * figure.dpi / 144
    taken = [Bbox.from_extents(px - h, py - h, px + h, py + h) for (px, py), h in zip(spots, half, strict=True)]
    ends = [axes.transData.transform([(a, b), (a, c)]) for a, b, c in zip(x, low, high, strict=True)]
    taken += [Bbox.from_extents(a[0] - 1, a[1], b[0] + 1, b[1]) for a, b in ends]
    taken += [box for way in ways for box in along(axes.transData.transform(way))]
    names = [f"{plain(r.method, 24)}\n{written(r.trained, r.seconds)}" for r in rows.itertuples()]
    name_points(figure, axes, names, spots, taken, look.colours)
    return figure


FIGURE = FIGURES.add(Drawing("accuracy_vs_cost", {"comparison_summary": ("accuracy", "other")}, plot, order=41))
