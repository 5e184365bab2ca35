"""Gains on axes that are learned too: M is symmetric, so it has eigenvectors inside the kept axes, each with a gain of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import FORMS, Form

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor


def triangle(k: int) -> Int[Tensor, "k k"]:
    """Which number stands where: the lower triangle, row by row, mirrored."""
    import torch

    index = torch.zeros(k, k, dtype=torch.long)
    row, column = torch.tril_indices(k, k)
    index[row, column] = index[column, row] = torch.arange(len(row))
    return index


def turned(values: Float[Tensor, "unit number"], axes: Float[Tensor, "unit k d"]) -> Float[Tensor, "unit k d"]:
    return values[:, triangle(axes.shape[-2]).to(values.device)] @ axes


def start(gain: Float[Tensor, "unit k"]) -> Float[Tensor, "unit number"]:
    k = gain.shape[-1]
    values = gain.new_zeros(len(gain), k * (k + 1) // 2)
    values[:, triangle(k).diagonal()] = gain - 1
    return values


FORMS.add(Form("axes", "a symmetric matrix: gains on learned axes", lambda k: k * (k + 1) // 2, 0.0, turned, start, scale=0.1, order=2))
