"""Distances to the nearest neighbours of every point, exact duplicates left out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

# Rows of the distance matrix at a time: a block of 128 × 2,000 float64 stays in the cache of one core.
ROWS = 128
# |x|² + |y|² − 2xy loses a few ulp of the largest |x|². Where a squared distance is below this part of it, so that
# fewer than eight digits would be left, it is computed again from differences.
CLOSE = 1e-7


@dataclass(frozen=True)
class Neighbours:
    """``distance[point, j]``: from each distinct point to its (j+1)-th nearest; ``duplicates`` were left out."""

    distance: Float[np.ndarray, "point k"]
    duplicates: int

    @cached_property
    def log_ratio(self) -> Float[np.ndarray, " point"]:
        r"""$\log (r_2 / r_1)$ of every point, which TwoNN looks at."""
        return np.log(self.distance[:, 1] / self.distance[:, 0])

    @cached_property
    def inverse(self) -> Float[np.ndarray, " point"]:
        r"""$1 / \hat d_i = \frac{1}{k-1} \sum_{j<k} \log (r_k / r_j)$ at every point, which the MLE averages."""
        k = self.distance.shape[1]
        logs = np.log(self.distance)
        return ((k - 1) * logs[:, -1] - logs[:, :-1].sum(1)) / (k - 1)


def _squared(points: np.ndarray, k: int) -> np.ndarray:
    """The k least squared distances of each point to the others, ascending."""
    n = len(points)
    centred = points - points.mean(0)
    square = np.einsum("nd,nd->n", centred, centred)
    one = np.ones(n)
    # One product gives |x|² + |y|² − 2xy: (−2x, |x|², 1) · (y, 1, |y|²).
    left = np.column_stack([-2 * centred, square, one])
    right = np.ascontiguousarray(np.column_stack([centred, one, square]).T)
    block, nearest = np.empty((min(ROWS, n), n)), np.empty((n, k))
    for start in range(0, n, ROWS):
        stop = min(start + ROWS, n)
        part = block[: stop - start]
        np.matmul(left[start:stop], right, out=part)
        part[np.arange(stop - start), np.arange(start, stop)] = np.inf
        part.partition(k - 1, axis=1)
        nearest[start:stop] = part[:, :k]
    nearest.sort(axis=1)
    for row in np.flatnonzero(nearest[:, 0] < CLOSE * square.max()):
        difference = points - points[row]
        exact = np.einsum("nd,nd->n", difference, difference)
        exact[row] = np.inf
        nearest[row] = np.sort(np.partition(exact, k - 1)[:k])
    return nearest


def neighbours(points: Float[np.ndarray, "point d"], k: int) -> Neighbours:
    """Of fewer than ``k + 1`` distinct points, as many neighbours as there are; of none, an empty array."""
    distinct, n = points, len(points)
    if n < 2:
        return Neighbours(np.zeros((0, 0)), 0)
    nearest = _squared(points, min(k, n - 1))
    # A zero distance is the only sign of a duplicate, and they are rare: only then are the rows compared.
    if (nearest[:, 0] == 0).any():
        distinct = np.unique(points, axis=0)
        if len(distinct) < 2:
            return Neighbours(np.zeros((len(distinct), 0)), n - len(distinct))
        nearest = _squared(distinct, min(k, len(distinct) - 1))
    return Neighbours(np.sqrt(nearest), n - len(distinct))
