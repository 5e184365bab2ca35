"""Spectral fingerprints: the eigenspectrum of every head, and the typical one of each stage."""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from .drawing import FIGURES, Context, Drawing, Tables, count, footer, left_out
from .marks import head_rows, legend_above, stage_handles
from .numbers import spread, stage_of
from .style import DOUBLE, LIGHT, SEQUENTIAL, new_figure, stage_colour

PER_CENT = FuncFormatter(lambda share, _: f"{100 * share:g} %")  # powers of ten would have exponents too small to read
FLOOR = 1e-5  # shares below this are rounding errors of the eigenvalues, not structure


def plot(tables: Tables, context: Context) -> Figure:
    spectra = spread(tables["components"], "ratio")
    empty = spectra.isna().all(axis=1)
    shares = np.ma.masked_invalid(spectra.to_numpy(float))
    stages = np.array([stage_of(label) for label in spectra.index])
    low = min(max(FLOOR, float(shares[shares > 0].min())), 0.1)
    figure, grid = new_figure(DOUBLE, 3.9, 1, 2, width_ratios=[1.15, 1])
    left, right = grid[0]
    colours = colormaps[SEQUENTIAL].with_extremes(bad=LIGHT)
    image = left.imshow(shares.clip(low, 1), cmap=colours, norm=LogNorm(low, 1), aspect="auto", interpolation="nearest", extent=(
        0.5, shares.shape[1] + 0.5, len(spectra) - 0.5, -0.5))  # fmt: skip
    head_rows(left, list(spectra.index), inches=3.0)
    left.set(xlabel="principal axis", title="Share of variance along each axis")
    left.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=2))
    bar = figure.colorbar(image, ax=left, aspect=35, pad=0.02, extend="min" if float(shares.min()) < low else "neither", format=PER_CENT)
    bar.set_label(f"share of the {context.unit}'s variance")
    axis = spectra.columns.to_numpy(int)
    for stage in np.unique(stages):
        group = spectra[(stages == stage) & ~empty.to_numpy()].clip(lower=low)
        if group.empty:
            continue
        median = group.median()
        right.plot(axis, median.where(median > low), color=stage_colour(stage), linewidth=1.2, marker="o", markersize=2, zorder=3)
        right.fill_between(axis, group.quantile(0.1), group.quantile(0.9), color=stage_colour(stage), alpha=0.2, linewidth=0)
    right.set(yscale="log", xlabel="principal axis", ylabel=f"share of the {context.unit}'s variance", title="Median of each stage")
    right.set_ylim(low, 1.2)
    right.yaxis.set_major_formatter(PER_CENT)
    right.yaxis.set_minor_formatter(NullFormatter())
    right.set_xlim(0, axis.max() + 1)
    right.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=2))
    legend_above(figure, stage_handles(stages))
    footer(
        figure,
        tables,
        context,
        count(int((~empty).sum()), context.unit),
        f"{shares.shape[1]} axes",
        left_out(int(empty.sum()), context.unit),
        f"bands: 10th to 90th percentile of {context.units}",
        "grey: no such axis" if spectra[~empty].isna().any(axis=None) else "",
    )
    return figure


FIGURE = FIGURES.add(Drawing("spectral_fingerprinting", {"components": ("ratio",)}, plot, order=21))
