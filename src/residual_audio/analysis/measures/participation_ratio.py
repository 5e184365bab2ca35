"""The participation ratio of a spectrum."""

from __future__ import annotations

from ...spectra import shares
from . import MEASURES, Spectrum, SpectrumMeasure, Values


def participation_ratio(variance: Spectrum) -> Values:
    r"""$(\sum \lambda_i)^2 / \sum \lambda_i^2 = 1 / \sum p_i^2$."""
    return 1 / shares(variance).square().sum(-1)


MEASURES.add(
    SpectrumMeasure(
        name="participation_ratio",
        title="participation ratio",
        short="PR",
        help="1 / Σ p², p the shares of the variance along the axes",
        unit="components",
        order=15,
        counts=True,
        compute=participation_ratio,
    )
)
