"""Means over the heads of blocks and stages."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .measures import CONTROL, ONE, attention_measures, class_measures, derived_measures, dimension_measures


def version_means(heads: pd.DataFrame, by: list[str], end: str) -> pd.DataFrame:
    """The measures of all clips (no ``end``), of one clip per recording, or of its control, as far as there are any."""
    tested = [m for m in dimension_measures() if m.tested and f"{m.name}{end}" in heads]
    plain = heads[by].assign(**{m.name: heads[f"{m.name}{end}"] for m in tested})
    groups, columns = plain.groupby(by, sort=True), {}
    for measure in tested:
        columns[measure.name], columns[f"{measure.name}_std"] = groups[measure.name].mean(), groups[measure.name].std()
    means = pd.DataFrame(columns)
    for derived in derived_measures():
        if derived in tested:
            means[derived.name] = derived.compute(means)
    return means.rename(columns={f"{m.name}{part}": f"{m.name}{end}{part}" for m in tested for part in ("", "_std")})


def grouped(heads: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Means and standard deviations over the heads of a block or stage; derived measures are those of the means."""
    groups = heads.groupby(by, sort=True)
    out = groups.size().rename("heads").to_frame()
    out = pd.concat([out, *(version_means(heads, by, end) for end in ("", f"_{ONE}", f"_{CONTROL}"))], axis=1)
    for by_class in class_measures():
        if by_class.tested:
            out[by_class.name] = groups[by_class.name].mean() if by_class.name in heads else np.nan
    for look in attention_measures():
        if look.name in heads:
            out[look.name], out[f"{look.name}_std"] = groups[look.name].mean(), groups[look.name].std()
    return out.reset_index()
