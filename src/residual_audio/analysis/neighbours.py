"""Distances to the nearest neighbours of every point, exact duplicates left out: of all points, or among a part of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

# Rows of the distance matrix at a time: a block of 128 × 2,000 float64 stays in the cache of one core.
ROWS = 128
# |x|² + |y|² − 2xy loses a few ulp of the largest |x|². Where a squared distance is below this part of it, so that
# fewer than eight digits would be left, it is computed again from differences.
CLOSE = 1e-7


@dataclass(frozen=True)
class Neighbours:
    """``distance[point, j]``: from each distinct point to its (j+1)-th nearest; ``duplicates`` were left out.

    ``groups``: the number of each point's group; errors are over groups. None: every point is its own.
    """

    distance: Float[np.ndarray, "point k"]
    duplicates: int
    groups: Int[np.ndarray, " point"] | None = None

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


def _exact(points: np.ndarray, row: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k least squared distances of one point to the others from differences, and whose they are."""
    difference = points - points[row]
    square = np.einsum("nd,nd->n", difference, difference)
    square[row] = np.inf
    nearest = np.argpartition(square, k - 1)[:k]
    nearest = nearest[np.argsort(square[nearest])]
    return square[nearest], nearest


def _nearest(points: np.ndarray, k: int, whose: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
    """The k least squared distances of each point to the others, ascending, and whose they are if asked for."""
    n = len(points)
    centred = points - points.mean(0)
    square = np.einsum("nd,nd->n", centred, centred)
    one = np.ones(n)
    # One product gives |x|² + |y|² − 2xy: (−2x, |x|², 1) · (y, 1, |y|²).
    left = np.column_stack([-2 * centred, square, one])
    right = np.ascontiguousarray(np.column_stack([centred, one, square]).T)
    block, nearest = np.empty((min(ROWS, n), n)), np.empty((n, k))
    index = np.empty((n, k), dtype=np.int32) if whose else None
    for start in range(0, n, ROWS):
        stop = min(start + ROWS, n)
        part = block[: stop - start]
        np.matmul(left[start:stop], right, out=part)
        part[np.arange(stop - start), np.arange(start, stop)] = np.inf
        if index is None:
            part.partition(k - 1, axis=1)
            nearest[start:stop] = part[:, :k]
        else:
            first = np.argpartition(part, k - 1, axis=1)[:, :k]
            squared = np.take_along_axis(part, first, 1)
            order = squared.argsort(1)
            index[start:stop], nearest[start:stop] = np.take_along_axis(first, order, 1), np.take_along_axis(squared, order, 1)
    if index is None:
        nearest.sort(axis=1)
    for row in np.flatnonzero(nearest[:, 0] < CLOSE * square.max()):
        nearest[row], whose_row = _exact(points, int(row), k)
        if index is not None:
            index[row] = whose_row
    return nearest, index


class Search:
    """The neighbours of one unit's points, searched once: those of :meth:`all` points, and those :meth:`among` any part of them.

    ``share``: the least part of the clips that will be asked for. So many neighbours are remembered that nearly every point finds its k
    in a part of that size; for the others, and where that would be most of the points, distances are computed anew.
    """

    def __init__(
        self, points: Float[np.ndarray, "point d"], k: int, groups: Int[np.ndarray, " point"] | None = None, share: float = 1.0
    ) -> None:
        n = len(points)
        self.points, self.k, self.groups, self.total = points, k, groups, n
        self.place = np.arange(n)
        reach = int(np.ceil((k + 4 * np.sqrt(k)) / share)) if share < 1 else k
        self.remembers = share < 1 and 4 * reach <= n
        self.reach = reach if self.remembers else k
        self.squared, self.index = self._search()
        # A zero distance is the only sign of a duplicate, and they are rare: only then are the rows compared.
        if self.squared.size and (self.squared[:, 0] == 0).any():
            self.points, first, self.place = np.unique(points, axis=0, return_index=True, return_inverse=True)
            self.groups = None if groups is None else groups[first]
            self.squared, self.index = self._search()

    def _search(self) -> tuple[np.ndarray, np.ndarray | None]:
        n = len(self.points)
        return _nearest(self.points, min(self.reach, n - 1), self.remembers) if n > 1 else (np.zeros((n, 0)), None)

    def all(self) -> Neighbours:
        """Of fewer than k + 1 distinct points, as many neighbours as there are; of none, an empty array."""
        return Neighbours(np.sqrt(self.squared[:, : self.k]), self.total - len(self.points), self.groups)

    def among(self, rows: Int[np.ndarray, " row"]) -> Neighbours:
        """The same with these points only."""
        chosen = np.unique(self.place[rows])
        groups = None if self.groups is None else self.groups[chosen]
        k = min(self.k, len(chosen) - 1)
        if self.index is None or k < 1:
            anew = _nearest(self.points[chosen], k)[0] if k > 0 else np.zeros((len(chosen), 0))
            return Neighbours(np.sqrt(anew), len(rows) - len(chosen), groups)
        inside = np.zeros(len(self.points), dtype=bool)
        inside[chosen] = True
        near = inside[self.index[chosen]]
        rank = near.cumsum(1, dtype=np.int32)
        full = rank[:, -1] >= k
        squared = np.empty((len(chosen), k))
        squared[full] = self.squared[chosen[full]][(near & (rank <= k))[full]].reshape(-1, k)
        for row in np.flatnonzero(~full):
            squared[row] = _exact(self.points[chosen], int(row), k)[0]
        return Neighbours(np.sqrt(squared), len(rows) - len(chosen), groups)


def neighbours(points: Float[np.ndarray, "point d"], k: int, groups: Int[np.ndarray, " point"] | None = None) -> Neighbours:
    """Of all points at once."""
    return Search(points, k, groups).all()
