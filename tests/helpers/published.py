"""Heads that have, block by block, the mean and the standard deviation of every published measure: tables of means, their spreads and
analyses of variance cannot tell them from the published heads, which are not shipped. Ranks can, and so can a single head."""

from pathlib import Path

import numpy as np
import pandas as pd

MOMENTS = Path(__file__).resolve().parents[1] / "fixtures" / "msclap2023-esc50-blocks.csv"


def alike_heads() -> pd.DataFrame:
    """In the published layout: ``head_id`` (L2_B4_H1) and the measures under their published names."""
    parts = []
    for (stage, block), rows in pd.read_csv(MOMENTS).groupby(["stage", "block"]):
        places = np.arange(rows.heads.iloc[0])
        spread = (places - places.mean()) / places.std(ddof=1)
        names = pd.DataFrame({"head_id": [f"L{stage}_B{block}_H{i}" for i in places]})
        known = rows.rename(columns={"mean": "middle", "std": "width"}).itertuples()
        parts.append(names.assign(**{row.measure: row.middle + row.width * spread for row in known}))
    return pd.concat(parts, ignore_index=True)
