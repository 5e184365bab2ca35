"""Every measure that needs no classes, for all heads at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..spectra import Moments
from ..workers import one_core_each
from .groups import Draws, Rows, group_weights
from .measures import CONTROL, ONE, Spectrum, derived_measures, neighbour_measures, one_measures, spectrum_measures
from .neighbours import Neighbours, Search

# Fewer distinct points than this say nothing about distances.
FEWEST = 3
COUNTED = ["distinct", "duplicates", "k"]
# Resamples of groups for the errors of spectra, and the fewest groups that are resampled.
RESAMPLES, FEWEST_GROUPS = 200, 20
# Vectors longer than this are turned and shortened before they are resampled, which leaves out this part of the variance, and so many
# resamples have to do: it is the error that is estimated by them, never the measure.
TURNED, NEGLIGIBLE, FEWER_RESAMPLES = 64, 1e-3, 50
# Numbers of a block of outer products: 64 MB of float64.
NUMBERS_AT_ONCE = 2**23


@dataclass(frozen=True)
class Dimensions:
    """``table``: one row per unit with n, duplicates, k, every measure, its ``_se`` and a ``note`` on what is NaN; and ``variance``.

    With draws also ``n_one`` and, of every measure that siblings change, ``_one`` (one clip per group) and ``_control`` (as many clips):
    means over draws, their standard deviation over draws (``_spread``), and for neighbours the mean error of a draw (``_one_se``).
    """

    table: pd.DataFrame
    variance: Float[Tensor, "unit axis"]


def _variance(moments: Moments) -> Float[Tensor, "*unit axis"]:
    return torch.linalg.eigvalsh(moments.covariance).flip(-1).clamp_min(0)


def _leading(points: Float[Tensor, "point d"]) -> Float[Tensor, "point axis"]:
    """The points along their principal axes, without those that hold next to nothing: resamples of long vectors are cheap then."""
    if points.shape[1] <= TURNED:
        return points
    _, length, axes = torch.linalg.svd(points, full_matrices=False)
    rest = length.square().flip(0).cumsum(0).flip(0)
    return points @ axes[rest > NEGLIGIBLE * rest[0]].mT


def _moments(x: Float[Tensor, "point unit d"], centred: bool) -> Moments:
    """Of the points about their mean, or about zero; either way the mean is no more subtracted."""
    found = Moments.of(x - x.mean(0) if centred else x)
    return found if centred else replace(found, total=torch.zeros_like(found.total))


def _without_noise(variance: Spectrum, scale: Float[Tensor, " unit"]) -> Spectrum:
    """Zero where all that is left is the rounding of data of this size: constant data have no spectrum."""
    constant = variance.sum(-1) <= 1e-12 * scale
    return torch.where(constant[..., None], 0.0, variance)


def _with_derived(table: pd.DataFrame, errors: bool) -> pd.DataFrame:
    """The table with the measures of its columns."""
    for measure in derived_measures():
        table[measure.name] = measure.compute(table)
        if errors:
            table[f"{measure.name}_se"] = measure.error(table)
    return table


def linear_dimensions(moments: Moments) -> Dimensions:
    """From moments alone (token level): the measures of the spectrum. Distances need points: the rest is NaN, and says so."""
    size = moments.second.diagonal(dim1=-2, dim2=-1).sum(-1) / moments.count
    variance = _without_noise(_variance(moments), size)
    table = pd.DataFrame({m.name: m.compute(variance).numpy() for m in spectrum_measures()})
    table.insert(0, "n", moments.count.numpy())
    for measure in neighbour_measures():
        table[measure.name] = np.nan
    _with_derived(table, errors=False)
    note = "neighbours need clip level"
    table["note"] = [note if v > 0 else f"{note}; constant: no spectrum" for v in variance.sum(-1).tolist()]
    return Dimensions(table, variance)


def spectral_values(variance: Spectrum) -> dict[str, np.ndarray]:
    return {m.name: m.compute(variance).numpy() for m in spectrum_measures()}


def resampled_variance(
    points: Float[Tensor, "point d"], weights: Float[Tensor, "resample point"], size: Float[Tensor, ""], centred: bool = True
) -> Float[Tensor, "resample axis"]:
    """The spectra of a unit's resamples: moments are sums over points, so weighted sums are the moments of a resample."""
    d = points.shape[-1]
    upper = torch.triu_indices(d, d)
    half = weights.new_zeros(len(weights), upper.shape[1])
    at_once = max(1, NUMBERS_AT_ONCE // upper.shape[1])
    for start in range(0, len(points), at_once):
        part = points[start : start + at_once]
        half += weights[:, start : start + at_once] @ (part[:, upper[0]] * part[:, upper[1]])
    second = weights.new_zeros(len(weights), d, d)
    second[:, upper[0], upper[1]] = half
    second[:, upper[1], upper[0]] = half
    total = weights @ points
    moments = Moments(weights.sum(1).to(torch.int64), total if centred else torch.zeros_like(total), second)
    return _without_noise(_variance(moments), size.expand(len(weights)))


def spectral_part(
    x: Float[Tensor, "point unit d"], groups: Int[np.ndarray, " point"], resamples: int, seed: int, pool: Executor, centred: bool = True
) -> Dimensions:
    """The measures of the spectrum, with errors by a bootstrap over groups (NaN with few of them, or without resamples)."""
    points = x - x.mean(0) if centred else x
    size = x.square().sum(-1).mean(0)
    variance = _without_noise(_variance(_moments(x, centred)), size)
    columns = spectral_values(variance)
    errors = pd.DataFrame(np.nan, index=range(x.shape[1]), columns=list(columns))
    if resamples > 1 and groups.max() + 1 >= FEWEST_GROUPS:
        count = min(resamples, FEWER_RESAMPLES) if x.shape[-1] > TURNED else resamples
        weights = torch.from_numpy(group_weights(groups, count, seed))

        def spread(unit: int) -> dict[str, float]:
            again = spectral_values(resampled_variance(_leading(points[:, unit]), weights, size[unit], centred))
            return {name: float(values.std(ddof=1)) for name, values in again.items()}

        errors = pd.DataFrame(list(pool.map(spread, range(x.shape[1]))))
    together = {column: values for name in columns for column, values in ((name, columns[name]), (f"{name}_se", errors[name]))}
    return Dimensions(pd.DataFrame(together), variance)


def neighbour_values(near: Neighbours) -> dict[str, float]:
    """Every measure of the neighbours and its error; NaN where there are too few."""
    values = {f"{m.name}{end}": float("nan") for m in neighbour_measures() for end in ("", "_se")}
    count, reached = near.distance.shape
    if count >= FEWEST and reached >= 2:
        for measure in neighbour_measures():
            values[measure.name], values[f"{measure.name}_se"] = measure.compute(near)
    return values


def neighbour_note(near: Neighbours) -> str:
    """Why something is NaN, or what was left out."""
    count, reached = near.distance.shape
    if count < FEWEST or reached < 2:
        return f"{count} distinct points: too few for distances"
    flat = int((near.inverse <= 0).sum())
    notes = [f"{near.duplicates} duplicates left out"] if near.duplicates else []
    notes += [f"{flat} points with equally far neighbours have no MLE"] if flat else []
    if not near.log_ratio.any():
        notes.append("all nearest neighbours equally far: no TwoNN")
    return "; ".join(notes)


def averaged(
    x: Float[Tensor, "point unit d"], rows: list[Rows], nonlinear: list[pd.DataFrame], end: str, centred: bool = True
) -> pd.DataFrame:
    """The measures that siblings change, over draws: mean and ``_spread``; ``nonlinear[draw]``: what the neighbours said."""
    names = [m.base.name for m in one_measures()]
    size = x.square().sum(-1).mean(0)
    tables = []
    for chosen, near in zip(rows, nonlinear, strict=True):
        linear = spectral_values(_without_noise(_variance(_moments(x[chosen], centred)), size))
        tables.append(_with_derived(pd.concat([pd.DataFrame(linear), near], axis=1), errors=False))
    values = {name: pd.concat([t[name] for t in tables], axis=1) for name in names}
    columns = {}
    for name in names:
        columns[f"{name}_{end}"], columns[f"{name}_{end}_spread"] = values[name].mean(axis=1), values[name].std(axis=1)
        if end == ONE and f"{name}_se" in nonlinear[0]:
            columns[f"{name}_{end}_se"] = pd.concat([t[f"{name}_se"] for t in tables], axis=1).mean(axis=1)
    return pd.DataFrame(columns)


def estimate_dimensions(
    x: Float[Tensor, "point unit d"],
    k: int = 20,
    groups: Int[np.ndarray, " point"] | None = None,
    draws: Draws | None = None,
    *,
    centred: bool = True,
    resamples: int = RESAMPLES,
    seed: int = 0,
    threads: int | None = None,
    advance: Callable[[int], object] | None = None,
) -> Dimensions:
    """Every measure of every unit, from its points. ``advance(n)`` is told of finished units.

    ``groups``: the number of each point's group (0, 1, …; none: every point its own); errors are over groups. ``draws``: also with these
    parts of the points. ``centred``: spectra are about the mean (else about zero; neighbours do not change). Neighbours are searched once
    per unit, on ``threads`` threads (default: one per core), each with one thread of its own; the draws read that search.
    """
    x = x.to(torch.float64)
    of = np.arange(len(x)) if groups is None else groups
    parts = Draws([], []) if draws is None else draws
    versions = {ONE: parts.one, CONTROL: parts.control}
    share = parts.clips / len(x) if parts.one else 1.0
    units = x.transpose(0, 1).contiguous().numpy()

    def one(points: np.ndarray) -> tuple[dict[str, Any], dict[str, list[dict[str, float]]]]:
        search = Search(points, k, of, share)
        near = search.all()
        row: dict[str, Any] = {"distinct": len(points) - near.duplicates, "duplicates": near.duplicates, "k": near.distance.shape[1]}
        row |= neighbour_values(near) | {"note": neighbour_note(near)}
        drawn = {end: [neighbour_values(search.among(rows)) for rows in some] for end, some in versions.items()}
        if advance is not None:
            advance(1)
        return row, drawn

    with one_core_each(threads) as pool:
        linear = spectral_part(x, of, resamples, seed, pool, centred)
        outcomes = list(pool.map(one, units))
    nonlinear = pd.DataFrame([row for row, _ in outcomes])
    table = pd.concat([nonlinear[COUNTED], linear.table, nonlinear.drop(columns=COUNTED)], axis=1)
    table.insert(0, "n", len(x))
    _with_derived(table, errors=True)
    if parts.one:
        means = [
            averaged(x, rows, [pd.DataFrame([drawn[end][i] for _, drawn in outcomes]) for i in range(len(rows))], end, centred)
            for end, rows in versions.items()
        ]
        table = pd.concat([table, pd.DataFrame({"n_one": parts.clips}, index=table.index), *means], axis=1)
    constant = linear.variance.sum(-1).numpy() == 0
    table["note"] = [("constant: no spectrum; " + n).strip("; ") if c else n for c, n in zip(constant, table.pop("note"), strict=True)]
    return Dimensions(table, linear.variance)
