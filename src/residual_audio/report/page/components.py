"""Of every head, from its pooled outputs: principal components, the clips at both ends, the classes apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...extraction import Run
from ...spectra import Moments, principal_axes
from .pack import digits

COMPONENTS, ENDS = 4, 4


def head_components(run: Run, rows: np.ndarray, targets: np.ndarray, classes: int) -> list[dict[str, Any]]:
    """One record per head, in the table's order. Ends are among the clips ``rows`` of the page; everything else is of all clips.

    ``means``: class means of a component's scores in its standard deviations; ``fisher``: scatter between classes over within.
    """
    outputs = run.heads[:].double()
    basis = principal_axes(Moments.of(outputs))
    count = min(COMPONENTS, basis.axes.shape[1])
    scores = ((outputs - basis.mean).transpose(0, 1) @ basis.axes[:, :count].mT).numpy()
    total = basis.variance.sum(1).clamp_min(1e-30)
    ratios = (basis.variance / total[:, None]).numpy()
    member = np.eye(classes)[targets]
    sizes = np.maximum(member.sum(0), 1)
    records = []
    for head, values in enumerate(scores):
        spread = np.maximum(values.std(0), 1e-12)
        means = (member.T @ values) / sizes[:, None]
        between = (member.sum(0)[:, None] * (means - values.mean(0)) ** 2).sum(0)
        within = ((values - means[targets]) ** 2).sum(0)
        order = np.argsort(values[rows], axis=0, kind="stable")
        parts = [
            {
                "low": order[:ENDS, k].tolist(),
                "high": order[::-1][:ENDS, k].tolist(),
                "means": digits(means[:, k] / spread[k], 3),
                "fisher": digits([between[k] / max(within[k], 1e-30)])[0],
            }
            for k in range(count)
        ]
        records.append({"spectrum": digits(ratios[head]), "parts": parts})
    return records
