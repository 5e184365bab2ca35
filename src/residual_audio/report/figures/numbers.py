"""Numbers as text, and tables brought into the shape a figure needs."""

from __future__ import annotations

import numpy as np
import pandas as pd

from residual_audio.units import Unit

SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number_text(value: float, digits: int = 3) -> str:
    """With a real minus sign; a dash where there is no number."""
    return f"{value:.{digits}f}".replace("-", "−") if np.isfinite(value) else "–"


def p_text(p: float) -> str:
    """``p = 0.104``, ``p = 3.2 × 10⁻⁵``; below what a float can tell, a bound."""
    if not np.isfinite(p):
        return "p = –"
    if p < 1e-300:
        return "p < 10⁻³⁰⁰"
    if p >= 0.001:
        return f"p = {p:.3f}"
    mantissa, exponent = f"{p:.1e}".split("e")
    return f"p = {mantissa} × 10{str(int(exponent)).translate(SUPERSCRIPT)}"


def stage_of(label: str) -> int:
    """The final embedding is of no stage: −1."""
    return Unit.parse(label).stage


def in_order(heads: pd.DataFrame) -> pd.DataFrame:
    """Heads in the order of computation."""
    return heads.sort_values(["stage", "block", "head"], kind="stable").reset_index(drop=True)


def labelled(table: pd.DataFrame) -> pd.DataFrame:
    """A table indexed by unit labels, whether it was just computed or read back from a file (label as first column)."""
    if table.index.name != "label" and "label" in table.columns:
        return table.set_index("label")
    return table


def square(table: pd.DataFrame) -> pd.DataFrame:
    """A similarity matrix with labels on both sides; a file may hold the labels as a first column, or only as the header."""
    table = labelled(table)
    if len(table.columns) == len(table) + 1:
        table = table.set_index(table.columns[0])
    if len(table) != len(table.columns):
        raise ValueError(f"a similarity table must be square, this one is {len(table)} × {len(table.columns)}")
    return table if list(table.index) == list(table.columns) else table.set_axis(table.columns, axis=0)


def spread(components: pd.DataFrame, value: str) -> pd.DataFrame:
    """The long table of components as head × axis, heads in the order of computation; NaN where a head has no such axis."""
    wide = components.pivot(index="label", columns="axis", values=value)
    return wide.loc[sorted(wide.index, key=Unit.parse)]
