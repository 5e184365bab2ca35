"""The whole battery of estimators for all heads at once."""

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

from ...spectra import Moments, spectrum_measures
from .jackknife import PARTS, standard_error
from .mle import inverse_dimensions, mle, mle_inverse
from .neighbours import neighbours
from .twonn import twonn, twonn_fit

LINEAR = ("pca_90", "pca_95", "pca_99", "evr_1", "evr_2", "participation_ratio", "effective_rank", "entropy")
NONLINEAR = ("twonn", "twonn_fit", "mle", "mle_inverse")
MEASURES = (*LINEAR, *NONLINEAR, "l_n")
# Fewer distinct points than this say nothing about distances.
FEWEST = 3


@dataclass(frozen=True)
class Dimensions:
    """``table``: one row a unit with n, duplicates, k, every measure, its ``_se`` and a ``note`` for what is NaN; and the ``variance``."""

    table: pd.DataFrame
    variance: Float[Tensor, "unit axis"]


def _variance(moments: Moments) -> Float[Tensor, "*unit axis"]:
    return torch.linalg.eigvalsh(moments.covariance).flip(-1).clamp_min(0)


def _without_noise(variance: Float[Tensor, "*unit axis"], scale: Float[Tensor, " unit"]) -> Float[Tensor, "*unit axis"]:
    """Zero where all that is left is the rounding of data of this size: constant data have no spectrum."""
    constant = variance.sum(-1) <= 1e-12 * scale
    return torch.where(constant[..., None], 0.0, variance)


def linear_dimensions(moments: Moments) -> Dimensions:
    """From moments alone (token level): the measures of the spectrum. Distances need points: the rest is NaN, and says so."""
    size = moments.second.diagonal(dim1=-2, dim2=-1).sum(-1) / moments.count
    variance = _without_noise(_variance(moments), size)
    table = pd.DataFrame({name: value.numpy() for name, value in spectrum_measures(variance).items()})
    table.insert(0, "n", moments.count.numpy())
    for name in (*NONLINEAR, "l_n"):
        table[name] = np.nan
    note = "neighbours need clip level"
    table["note"] = [note if v > 0 else f"{note}; constant: no spectrum" for v in variance.sum(-1).tolist()]
    return Dimensions(table, variance)


def spectral_part(x: Float[Tensor, "point unit d"]) -> Dimensions:
    """The linear measures, with errors by a jackknife over parts of the points."""
    centred = x - x.mean(0)
    parts = [Moments.of(centred[p::PARTS]) for p in range(min(PARTS, len(x)))]
    whole = sum(parts[1:], parts[0])
    size = x.square().sum(-1).mean(0)
    variance = _without_noise(_variance(whole), size)
    columns: dict[str, np.ndarray] = {}
    enough = len(x) >= 2 * PARTS
    if enough:
        rest = [Moments(whole.count - p.count, whole.total - p.total, whole.second - p.second) for p in parts]
        stacked = Moments.joined(rest)
        left_out = _without_noise(_variance(stacked).unflatten(0, (len(parts), -1)), size)
        errors = {name: standard_error(value.numpy()) for name, value in spectrum_measures(left_out).items()}
    for name, value in spectrum_measures(variance).items():
        columns[name] = value.numpy()
        columns[f"{name}_se"] = errors[name] if enough else np.full(len(value), np.nan)
    return Dimensions(pd.DataFrame(columns), variance)


def neighbour_part(points: Float[np.ndarray, "point d"], k: int) -> dict[str, float | int | str]:
    """The nonlinear estimates of one unit."""
    found = neighbours(points, k)
    count, near = found.distance.shape
    row: dict[str, float | int | str] = {"distinct": len(points) - found.duplicates, "duplicates": found.duplicates, "k": near}
    row |= {f"{name}{end}": float("nan") for name in NONLINEAR for end in ("", "_se")}
    if count < FEWEST or near < 2:
        return row | {"note": f"{row['distinct']} distinct points: too few for distances"}
    log_ratio = np.log(found.distance[:, 1] / found.distance[:, 0])
    row["twonn"], row["twonn_se"] = twonn(log_ratio)
    row["twonn_fit"], row["twonn_fit_se"] = twonn_fit(log_ratio)
    inverse = inverse_dimensions(found.distance)
    row["mle"], row["mle_se"] = mle(inverse)
    row["mle_inverse"], row["mle_inverse_se"] = mle_inverse(inverse)
    flat = int((inverse <= 0).sum())
    notes = [f"{found.duplicates} duplicates left out"] if found.duplicates else []
    notes += [f"{flat} points with equally far neighbours have no MLE"] if flat else []
    if not log_ratio.any():
        notes.append("all nearest neighbours equally far: no TwoNN")
    return row | {"note": "; ".join(notes)}


def estimate_dimensions(
    x: Float[Tensor, "point unit d"], k: int = 20, threads: int | None = None, advance: Callable[[int], object] | None = None
) -> Dimensions:
    """Every measure of every unit, from its points. ``advance(n)`` is told of finished units.

    Neighbours are found unit by unit on ``threads`` threads (default: one a core), each with one thread of its own.
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
    table = pd.concat(
        [nonlinear[["distinct", "duplicates", "k"]], linear.table, nonlinear.drop(columns=["distinct", "duplicates", "k"])], axis=1
    )
    table.insert(0, "n", len(x))
    table["l_n"] = table.pca_99 / table.twonn
    # The errors of a quotient, to first order; the two estimates come from the same clips, so this is an upper bound.
    table["l_n_se"] = table.l_n * np.hypot(table.pca_99_se / table.pca_99, table.twonn_se / table.twonn)
    constant = linear.variance.sum(-1).numpy() == 0
    table["note"] = [("constant: no spectrum; " + n).strip("; ") if c else n for c, n in zip(constant, table.pop("note"), strict=True)]
    return Dimensions(table, linear.variance)
