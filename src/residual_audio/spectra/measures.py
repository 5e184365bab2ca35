r"""Measures of a spectrum $\lambda_1 \ge \dots \ge \lambda_d \ge 0$, with $p_i = \lambda_i / \sum_j \lambda_j$.

All take ``variance [..., axis]``, falling, and work on any number of spectra at once. A spectrum that is zero
everywhere (constant data) has no shares: every measure of it is NaN.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

Spectrum = Float[Tensor, "*unit axis"]
Measure = Float[Tensor, "*unit"]


def shares(variance: Spectrum) -> Spectrum:
    """$p_i$: they sum to one, or are NaN for constant data."""
    total = variance.sum(-1, keepdim=True)
    return torch.where(total > 0, variance / total, torch.nan)


def pca_dimension(variance: Spectrum, share: float) -> Measure:
    r"""The least k with $\sum_{i \le k} p_i \ge$ ``share``."""
    cumulative = shares(variance).cumsum(-1)
    # Rounding may leave the last sum just below one: then all axes are needed.
    needed = (cumulative < share).sum(-1).add(1).clamp_max(variance.shape[-1]).to(variance.dtype)
    return torch.where(cumulative[..., -1].isnan(), torch.nan, needed)


def participation_ratio(variance: Spectrum) -> Measure:
    r"""$(\sum \lambda_i)^2 / \sum \lambda_i^2 = 1 / \sum p_i^2$."""
    return 1 / shares(variance).square().sum(-1)


def entropy(variance: Spectrum) -> Measure:
    r"""$-\sum p_i \log p_i$, in nats."""
    return -torch.special.xlogy(p := shares(variance), p).sum(-1)


def effective_rank(variance: Spectrum) -> Measure:
    """exp(entropy): the number of equal variances with the same entropy (Roy & Vetterli 2007)."""
    return entropy(variance).exp()


def spectrum_measures(variance: Spectrum) -> dict[str, Measure]:
    """All of them, by the names that tables use."""
    p = shares(variance)
    return {
        "pca_90": pca_dimension(variance, 0.90),
        "pca_95": pca_dimension(variance, 0.95),
        "pca_99": pca_dimension(variance, 0.99),
        "evr_1": p[..., 0],
        "evr_2": p[..., 1] if p.shape[-1] > 1 else torch.zeros_like(p[..., 0]),
        "participation_ratio": participation_ratio(variance),
        "effective_rank": effective_rank(variance),
        "entropy": entropy(variance),
    }
