"""Linear over nonlinear dimension: how much more room a head takes than its data need."""

from __future__ import annotations

import numpy as np
import pandas as pd

from . import MEASURES, DerivedMeasure


def ratio(table: pd.DataFrame) -> pd.Series:
    """PCA99 over TwoNN."""
    return table["pca_99"] / table["twonn"]


def ratio_error(table: pd.DataFrame) -> pd.Series:
    """The error of a quotient, to first order; the two estimates come from the same clips, so this is an upper bound."""
    return table["l_n"] * np.hypot(table["pca_99_se"] / table["pca_99"], table["twonn_se"] / table["twonn"])


MEASURES.add(
    DerivedMeasure(
        name="l_n",
        title="linear / nonlinear dimension",
        short="L/N",
        help="PCA dimension (99 %) over TwoNN dimension; of a block or stage, the ratio of the means",
        order=30,
        paper=False,
        compute=ratio,
        error=ratio_error,
    )
)
