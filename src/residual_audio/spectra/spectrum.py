r"""Spectra $\lambda_1 \ge \dots \ge \lambda_d \ge 0$ as shares of their sum."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def shares(variance: Float[Tensor, "*unit axis"]) -> Float[Tensor, "*unit axis"]:
    r"""$p_i = \lambda_i / \sum_j \lambda_j$: they sum to one, or are NaN where all variances are zero (constant data)."""
    total = variance.sum(-1, keepdim=True)
    return torch.where(total > 0, variance / total, torch.nan)
