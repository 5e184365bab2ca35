"""Where each token is: windows, shifts, merge groups and strips, as index vectors over one grid."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def window_order(grid: tuple[int, int], window: int, shift: int) -> Int[Tensor, " token"]:
    """``order[i]``: the grid index of the i-th token in window layout.

    Tokens are rolled back by ``shift``, cut into windows, and listed window by window; ``window = 0`` leaves them alone.
    """
    height, width = grid
    index = torch.arange(height * width).view(height, width)
    if not window:
        return index.flatten()
    index = index.roll((-shift, -shift), (0, 1))
    return index.unflatten(0, (-1, window)).unflatten(2, (-1, window)).transpose(1, 2).flatten()


def group_order(grid: tuple[int, int], merges: int) -> Int[Tensor, " token"]:
    """The grid indices listed by merge group, ``merges`` levels deep: ``[group, position]`` flattened.

    Groups are in the order of the grid after all merges; within a group the position counts the innermost merge
    fastest, each level in the order (row, column) = (0,0), (1,0), (0,1), (1,1).
    """
    height, width = grid
    index = torch.arange(height * width).view(height, width, 1)
    for _ in range(merges):
        parts = [index[row::2, column::2] for column in range(2) for row in range(2)]
        index = torch.stack(parts, -2).flatten(-2)
    return index.flatten()


def to_groups(grid: tuple[int, int], window: int, shift: int, merges: int) -> Int[Tensor, " token"]:
    """``pick[k]``: which token of the window layout stands at place k of the group layout."""
    place = torch.empty(grid[0] * grid[1], dtype=torch.long)
    place[window_order(grid, window, shift)] = torch.arange(grid[0] * grid[1])
    return place[group_order(grid, merges)]


def to_spectrogram(grid: tuple[int, int], strips: int, window: int = 0, shift: int = 0) -> Int[Tensor, "frequency time"]:
    """``pick[f, t]``: which token of the (window) layout lies at frequency row f and time column t of the spectrogram.

    HTS-AT folds time into ``strips`` that lie above each other; this unfolds them. Row 0 is the lowest frequency.
    """
    place = torch.empty(grid[0] * grid[1], dtype=torch.long)
    place[window_order(grid, window, shift)] = torch.arange(grid[0] * grid[1])
    rows = place.view(strips, grid[0] // strips, grid[1])
    return rows.transpose(0, 1).flatten(1)


def together(grid: tuple[int, int], window: int, shift: int) -> Bool[Tensor, "window token token"]:
    """Which pairs of a window may look at each other: after a shift, tokens that were rolled over an edge are no neighbours.

    The regions are Swin's: cut at the last window and at the shift, along rows and along columns.
    """
    height, width = grid
    if not window:
        return torch.ones(1, height * width, height * width, dtype=torch.bool)
    # The i-th place after the roll; at the end of the rolled axis the last ``shift`` places came over the edge.
    rows, columns = ((torch.arange(n) >= n - shift).long() if shift else torch.zeros(n, dtype=torch.long) for n in grid)
    region = (2 * rows[:, None] + columns).flatten()[window_order(grid, window, 0)].view(-1, window * window)
    return region[:, :, None] == region[:, None, :]
