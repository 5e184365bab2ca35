r"""Standard errors by leaving parts out: $se^2 = \frac{g-1}{g} \sum_j (\theta_{(j)} - \bar\theta)^2$ over g parts."""

from __future__ import annotations

import numpy as np

# Parts of the grouped jackknife. Clip i is in part i mod 20, so that classes that follow each other are spread.
PARTS = 20


def standard_error(left_out: np.ndarray) -> np.ndarray:
    """``left_out[part, ...]``: the estimate without each part."""
    parts = len(left_out)
    spread = (left_out - left_out.mean(0)) ** 2
    return np.asarray(np.sqrt((parts - 1) / parts * spread.sum(0)))


def ratio_error(numerator: float, terms: np.ndarray) -> float:
    r"""Of $c\,n / \sum_i t_i$ (``numerator`` is c), leaving out one term at a time: vectorised, exact."""
    n = len(terms)
    return float(standard_error(numerator * (n - 1) / (terms.sum() - terms))) if n > 2 else float("nan")
