r"""Standard errors by leaving parts out: $se^2 = \frac{g-1}{g} \sum_j (\theta_{(j)} - \bar\theta)^2$ over g parts.

A part is made of whole groups: clips of one recording are left out together.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

# Parts of the grouped jackknife. Group i is in part i mod 20, so that classes that follow each other are spread.
PARTS = 20
Groups = Int[np.ndarray, " term"] | None


def standard_error(left_out: np.ndarray) -> np.ndarray:
    """``left_out[part, ...]``: the estimate without each part."""
    parts = len(left_out)
    spread = (left_out - left_out.mean(0)) ** 2
    return np.asarray(np.sqrt((parts - 1) / parts * spread.sum(0)))


def numbered(groups: Groups, count: int) -> Int[np.ndarray, " term"]:
    """Groups as 0, 1, 2, … in the order of their numbers; every term its own where there are none."""
    return np.arange(count) if groups is None else np.unique(groups, return_inverse=True)[1]


def ratio_error(numerator: float, terms: Float[np.ndarray, " term"], groups: Groups = None) -> float:
    r"""Of $c\,n / \sum_i t_i$ (``numerator`` is c), leaving out the terms of one group at a time: vectorised, exact."""
    of = numbered(groups, len(terms))
    sizes, sums = np.bincount(of), np.bincount(of, terms)
    return float(standard_error(numerator * (len(terms) - sizes) / (terms.sum() - sums))) if len(sizes) > 2 else float("nan")


def mean_error(terms: Float[np.ndarray, " term"], groups: Groups = None) -> float:
    r"""Of a mean: $\frac{1}{n}\sqrt{\frac{G}{G-1} \sum_g (\sum_{i \in g} t_i - \bar t)^2}$ over G groups.

    With one term per group it is $s/\sqrt n$.
    """
    sums = np.bincount(numbered(groups, len(terms)), terms - terms.mean())
    count = len(sums)
    return float(np.sqrt(count / (count - 1) * (sums**2).sum()) / len(terms)) if count > 1 else float("nan")
