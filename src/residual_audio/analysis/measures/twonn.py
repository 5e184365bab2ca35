r"""TwoNN (Facco et al. 2017): $\mu_i = r_2^{(i)} / r_1^{(i)}$ follows a Pareto law whose exponent is the dimension."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from ..jackknife import PARTS, Groups, numbered, ratio_error, standard_error
from . import MEASURES, NeighbourMeasure

DISCARD = 0.1


def twonn(log_ratio: Float[np.ndarray, " point"], groups: Groups = None) -> tuple[float, float]:
    r"""Maximum likelihood: $n / \sum_i \log \mu_i$, and its standard error (neighbours held)."""
    total = float(log_ratio.sum())
    if total <= 0:
        return float("nan"), float("nan")
    return len(log_ratio) / total, ratio_error(1.0, log_ratio, groups)


def _slope(ordered: np.ndarray, discard: float) -> float:
    """Least squares through the origin of −log(1 − F) on log μ, without the largest ratios."""
    n = len(ordered)
    kept = int(n * (1 - discard))
    x, y = ordered[:kept], -np.log1p(-np.arange(1, kept + 1) / n)
    square = float(x @ x)
    return float(x @ y) / square if square > 0 else float("nan")


def twonn_fit(log_ratio: Float[np.ndarray, " point"], groups: Groups = None, discard: float = DISCARD) -> tuple[float, float]:
    """The slope of the empirical distribution, and its error by a jackknife over parts (neighbours held)."""
    order, of = np.argsort(log_ratio, kind="stable"), numbered(groups, len(log_ratio))
    ordered, part = log_ratio[order], of[order] % PARTS
    if of.max(initial=-1) + 1 < 2 * PARTS:
        return _slope(ordered, discard), float("nan")
    return _slope(ordered, discard), float(standard_error(np.array([_slope(ordered[part != p], discard) for p in range(PARTS)])))


MEASURES.add(
    NeighbourMeasure(
        name="twonn",
        title="TwoNN dimension",
        short="TwoNN",
        help="nonlinear dimension from the two nearest neighbours, by maximum likelihood",
        order=20,
        counts=True,
        compute=lambda near: twonn(near.log_ratio, near.groups),
    )
)
MEASURES.add(
    NeighbourMeasure(
        name="twonn_fit",
        title="TwoNN dimension, fitted",
        short="TwoNN fit",
        help="the same from a line through the distribution of the ratios, without the largest tenth",
        order=21,
        counts=True,
        shown="tables",
        paper=False,
        compute=lambda near: twonn_fit(near.log_ratio, near.groups),
    )
)
