"""Principal axes from moments."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from .moments import Moments


@dataclass(frozen=True)
class Basis:
    """Of several units at once: orthonormal ``axes [unit, axis, d]`` by falling ``variance [unit, axis]``, about ``mean``."""

    axes: Float[Tensor, "unit axis d"]
    variance: Float[Tensor, "unit axis"]
    mean: Float[Tensor, "unit d"]


def principal_axes(moments: Moments) -> Basis:
    """Exact PCA. Signs are fixed (the largest entry of an axis is positive), so equal data give equal bases."""
    values, vectors = torch.linalg.eigh(moments.covariance)
    axes, variance = vectors.flip(-1).mT, values.flip(-1).clamp_min(0)
    largest = axes.gather(-1, axes.abs().argmax(-1, keepdim=True))
    return Basis(axes * torch.where(largest < 0, -1.0, 1.0), variance, moments.mean)
