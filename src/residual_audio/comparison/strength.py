"""What a method has on the task and costs elsewhere at parts of its strength: 1 + τ(g − 1), weights on the way from plain to adapted."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ..options import OptionError


def parse_strengths(text: str | None) -> list[float]:
    """``"0.25,0.5"`` → ``[0.25, 0.5]``."""
    try:
        found = [float(word) for word in (text or "").split(",") if word.strip()]
    except ValueError as error:
        raise OptionError(f"--strengths: {text!r} is no list of numbers, as in 0.25,0.5,0.75,1") from error
    if any(not 0 <= tau <= 2 for tau in found):
        raise OptionError(f"--strengths: {text!r} has one outside 0 to 2; all of what was learned is 1")
    return found


def strength_table(cells: Sequence[tuple[str, int, int, int, list[dict[str, float]]]]) -> pd.DataFrame:
    """One row per method and strength, over all test clips: of ``(method, fold, repeat, clips, curve)`` of every cell."""
    rows = [{"method": m, "fold": f, "repeat": r, "clips": n, **point} for m, f, r, n, curve in cells for point in curve]
    if not rows:
        return pd.DataFrame()
    table = pd.DataFrame(rows)
    grouped = table.assign(right=table.accuracy * table.clips).groupby(["method", "tau"], sort=False)
    found = pd.DataFrame({"accuracy": grouped.right.sum() / grouped.clips.sum()})
    if "other" in table:
        found["other"] = grouped.other.mean()
    if "novel" in table:
        asked = table.assign(right=table.novel * table.novel_clips).groupby(["method", "tau"], sort=False)
        found["novel"] = asked.right.sum() / asked.novel_clips.sum()
    return found.reset_index()
