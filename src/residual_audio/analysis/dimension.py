"""Every measure that needs no classes, for all heads at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from threadpoolctl import threadpool_limits
from torch import Tensor

from ..spectra import Moments
from .jackknife import PARTS, standard_error
from .measures import Spectrum, derived_measures, neighbour_measures, spectrum_measures
from .neighbours import neighbours

# Fewer distinct points than this say nothing about distances.
FEWEST = 3
COUNTED = ["distinct", "duplicates", "k"]


@dataclass(frozen=True)
class Dimensions:
    """``table``: one row per unit with n, duplicates, k, every measure, its ``_se`` and a ``note`` on what is NaN; and ``variance``."""

    table: pd.DataFrame
    variance: Float[Tensor, "unit axis"]


def _variance(moments: Moments) -> Float[Tensor, "*unit axis"]:
    return torch.linalg.eigvalsh(moments.covariance).flip(-1).clamp_min(0)


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


def spectral_part(x: Float[Tensor, "point unit d"]) -> Dimensions:
    """The measures of the spectrum, with errors by a jackknife over parts of the points."""
    centred = x - x.mean(0)
    parts = [Moments.of(centred[p::PARTS]) for p in range(min(PARTS, len(x)))]
    whole = sum(parts[1:], parts[0])
    size = x.square().sum(-1).mean(0)
    variance = _without_noise(_variance(whole), size)
    left_out: Tensor | None = None
    if len(x) >= 2 * PARTS:
        rest = [Moments(whole.count - p.count, whole.total - p.total, whole.second - p.second) for p in parts]
        stacked = Moments.joined(rest)
        left_out = _without_noise(_variance(stacked).unflatten(0, (len(parts), -1)), size)
    columns: dict[str, np.ndarray] = {}
    for measure in spectrum_measures():
        value = measure.compute(variance).numpy()
        columns[measure.name] = value
        columns[f"{measure.name}_se"] = (
            np.full(len(value), np.nan) if left_out is None else standard_error(measure.compute(left_out).numpy())
        )
    return Dimensions(pd.DataFrame(columns), variance)


def neighbour_part(points: Float[np.ndarray, "point d"], k: int) -> dict[str, float | int | str]:
    """The measures of one unit's nearest neighbours."""
    near = neighbours(points, k)
    count, reached = near.distance.shape
    row: dict[str, float | int | str] = {"distinct": len(points) - near.duplicates, "duplicates": near.duplicates, "k": reached}
    row |= {f"{m.name}{end}": float("nan") for m in neighbour_measures() for end in ("", "_se")}
    if count < FEWEST or reached < 2:
        return row | {"note": f"{row['distinct']} distinct points: too few for distances"}
    for measure in neighbour_measures():
        row[measure.name], row[f"{measure.name}_se"] = measure.compute(near)
    flat = int((near.inverse <= 0).sum())
    notes = [f"{near.duplicates} duplicates left out"] if near.duplicates else []
    notes += [f"{flat} points with equally far neighbours have no MLE"] if flat else []
    if not near.log_ratio.any():
        notes.append("all nearest neighbours equally far: no TwoNN")
    return row | {"note": "; ".join(notes)}


def estimate_dimensions(
    x: Float[Tensor, "point unit d"], k: int = 20, threads: int | None = None, advance: Callable[[int], object] | None = None
) -> Dimensions:
    """Every measure of every unit, from its points. ``advance(n)`` is told of finished units.

    Neighbours are searched unit by unit on ``threads`` threads (default: one per core), each with one thread of its own.
    """
    x = x.to(torch.float64)
    linear = spectral_part(x)
    units = x.transpose(0, 1).contiguous().numpy()

    def one(points: np.ndarray) -> dict[str, float | int | str]:
        row = neighbour_part(points, k)
        if advance is not None:
            advance(1)
        return row

    with threadpool_limits(1), ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        nonlinear = pd.DataFrame(list(pool.map(one, units)))
    table = pd.concat([nonlinear[COUNTED], linear.table, nonlinear.drop(columns=COUNTED)], axis=1)
    table.insert(0, "n", len(x))
    _with_derived(table, errors=True)
    constant = linear.variance.sum(-1).numpy() == 0
    table["note"] = [("constant: no spectrum; " + n).strip("; ") if c else n for c, n in zip(constant, table.pop("note"), strict=True)]
    return Dimensions(table, linear.variance)
