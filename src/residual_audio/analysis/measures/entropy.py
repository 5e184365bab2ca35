"""Entropy of a spectrum, and the effective rank that it stands for."""

from __future__ import annotations

import torch

from ...spectra import shares
from . import MEASURES, Spectrum, SpectrumMeasure, Values


def entropy(variance: Spectrum) -> Values:
    r"""$-\sum p_i \log p_i$, in nats."""
    return -torch.special.xlogy(p := shares(variance), p).sum(-1)


def effective_rank(variance: Spectrum) -> Values:
    """exp(entropy): the number of equal variances with the same entropy (Roy & Vetterli 2007)."""
    return entropy(variance).exp()


MEASURES.add(
    SpectrumMeasure(
        name="effective_rank",
        title="effective rank",
        short="EffRank",
        help="exp of the entropy of the spectrum: as many equal variances have the same entropy",
        unit="components",
        order=16,
        counts=True,
        compute=effective_rank,
    )
)
MEASURES.add(
    SpectrumMeasure(
        name="entropy",
        title="spectral entropy",
        short="entropy",
        help="−Σ p log p over the shares of the variance",
        unit="nats",
        order=17,
        shown="figures",
        paper=False,
        compute=entropy,
    )
)
