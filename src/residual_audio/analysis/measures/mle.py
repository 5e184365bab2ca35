r"""Levina & Bickel (2004): $\hat d_i = \big( \frac{1}{k-1} \sum_{j<k} \log \frac{r_k^{(i)}}{r_j^{(i)}} \big)^{-1}$ at every point."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from ..jackknife import Groups, mean_error, ratio_error
from . import MEASURES, NeighbourMeasure


def mle(inverse: Float[np.ndarray, " point"], groups: Groups = None) -> tuple[float, float]:
    """The mean over points, as in the papers. Points all of whose neighbours are equally far have no estimate: left out."""
    known = inverse > 0
    if not known.any():
        return float("nan"), float("nan")
    local = 1 / inverse[known]
    return float(local.mean()), mean_error(local, None if groups is None else groups[known])


def mle_inverse(inverse: Float[np.ndarray, " point"], groups: Groups = None) -> tuple[float, float]:
    """The inverse of the mean inverse (MacKay & Ghahramani 2005): less biased, and what scikit-dimension gives by default."""
    mean = float(inverse.mean()) if len(inverse) else 0.0
    return (1 / mean, ratio_error(1.0, inverse, groups)) if mean > 0 else (float("nan"), float("nan"))


MEASURES.add(
    NeighbourMeasure(
        name="mle",
        title="MLE dimension",
        short="MLE",
        help="nonlinear dimension from the k nearest neighbours, mean over points",
        order=22,
        counts=True,
        paper=False,
        compute=lambda near: mle(near.inverse, near.groups),
    )
)
MEASURES.add(
    NeighbourMeasure(
        name="mle_inverse",
        title="MLE dimension, inverse mean",
        short="MLE inv.",
        help="the same as the inverse of the mean inverse over points, which is less biased",
        order=23,
        counts=True,
        shown="tables",
        paper=False,
        compute=lambda near: mle_inverse(near.inverse, near.groups),
    )
)
