"""Explained-variance ratios: how much of the variance lies on one axis."""

from __future__ import annotations

import torch

from ...spectra import shares
from . import MEASURES, Spectrum, SpectrumMeasure, Values


def first_share(variance: Spectrum) -> Values:
    """$p_1$."""
    return shares(variance)[..., 0]


def second_share(variance: Spectrum) -> Values:
    """$p_2$; zero in one dimension."""
    part = shares(variance)
    return part[..., 1] if part.shape[-1] > 1 else torch.zeros_like(part[..., 0])


MEASURES.add(
    SpectrumMeasure(
        name="evr_1",
        title="EVR₁",
        short="EVR1",
        help="share of the variance on the first principal axis",
        unit="share of variance",
        order=13,
        compute=first_share,
    )
)
MEASURES.add(
    SpectrumMeasure(
        name="evr_2",
        title="EVR₂",
        short="EVR2",
        help="share of the variance on the second principal axis",
        unit="share of variance",
        order=14,
        shown="tables",
        paper=False,
        compute=second_share,
    )
)
