r"""Levina & Bickel (2004): $\hat d_i = \big( \frac{1}{k-1} \sum_{j<k} \log \frac{r_k^{(i)}}{r_j^{(i)}} \big)^{-1}$ at every point."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from .jackknife import ratio_error


def inverse_dimensions(distance: Float[np.ndarray, "point k"]) -> Float[np.ndarray, " point"]:
    r"""$1 / \hat d_i$."""
    k = distance.shape[1]
    logs = np.log(distance)
    return ((k - 1) * logs[:, -1] - logs[:, :-1].sum(1)) / (k - 1)


def mle(inverse: Float[np.ndarray, " point"]) -> tuple[float, float]:
    """The mean over points, as in the seeds. Points all of whose neighbours are equally far have no estimate: left out."""
    local = 1 / inverse[inverse > 0]
    if not len(local):
        return float("nan"), float("nan")
    return float(local.mean()), float(local.std(ddof=1) / np.sqrt(len(local))) if len(local) > 1 else float("nan")


def mle_inverse(inverse: Float[np.ndarray, " point"]) -> tuple[float, float]:
    """The inverse of the mean inverse (MacKay & Ghahramani 2005): less biased, and what scikit-dimension gives by default."""
    mean = float(inverse.mean()) if len(inverse) else 0.0
    return (1 / mean, ratio_error(1.0, inverse)) if mean > 0 else (float("nan"), float("nan"))
