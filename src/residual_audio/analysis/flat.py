"""What the measures say of flat data: the bias of an estimate at this number of clips and dimensions, with which a head is compared."""

from __future__ import annotations

import torch

from .dimension import estimate_dimensions
from .measures import dimension_measures

SAMPLES = 4


def flat_reference(clips: int, d: int, k: int, seed: int = 0) -> dict[str, float]:
    """Means over samples of ``clips`` points of a Gaussian that is alike in all ``d`` directions.

    Its dimension is d. Neighbours are far away in many dimensions, so their estimates stay below: 500 to 2,000 points in 24 dimensions
    have a TwoNN dimension of 18 to 20. An L/N of 1.2 to 1.3 is what flat data give, not a sign of curvature.
    """
    points = torch.randn(clips, SAMPLES, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    table = estimate_dimensions(points, k, resamples=0).table
    return {"clips": clips, "d": d, **{m.name: float(table[m.name].mean()) for m in dimension_measures()}}
