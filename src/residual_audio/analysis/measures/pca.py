"""How many principal axes hold most of the variance."""

from __future__ import annotations

from functools import partial

import torch

from ...spectra import shares
from . import MEASURES, Spectrum, SpectrumMeasure, Values


def pca_dimension(variance: Spectrum, share: float) -> Values:
    r"""The least k with $\sum_{i \le k} p_i \ge$ ``share``."""
    cumulative = shares(variance).cumsum(-1)
    # Rounding may leave the last sum just below one: then all axes are needed.
    needed = (cumulative < share).sum(-1).add(1).clamp_max(variance.shape[-1]).to(variance.dtype)
    return torch.where(cumulative[..., -1].isnan(), torch.nan, needed)


for order, percent in enumerate((90, 95, 99), 10):
    MEASURES.add(
        SpectrumMeasure(
            name=f"pca_{percent}",
            title=f"PCA dimension, {percent} %",
            short=f"PCA{percent}",
            help=f"principal axes that hold {percent} % of the variance",
            unit="components",
            order=order,
            counts=True,
            shown="everywhere" if percent == 99 else "figures",
            paper=percent != 95,
            siblings=True,
            compute=partial(pca_dimension, share=percent / 100),
        )
    )
