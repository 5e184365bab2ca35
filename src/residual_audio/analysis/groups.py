"""Clips of one recording, speaker or instrument (a *group*) are not independent: groups are resampled, or one clip of each is taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

Rows = Int[np.ndarray, " row"]


def group_codes(clips: pd.DataFrame, rows: Rows | None = None) -> Int[np.ndarray, " clip"]:
    """The number of each clip's group, in the order of appearance; a run without the column ``group`` has one clip per group."""
    clips = clips if rows is None else clips.iloc[rows]
    return pd.factorize(clips["group"])[0] if "group" in clips else np.arange(len(clips))


@dataclass(frozen=True)
class Draws:
    """``one``: one clip of every group, drawn anew each time. ``control``: as many clips of all, whatever their groups."""

    one: list[Rows]
    control: list[Rows]

    @property
    def clips(self) -> int:
        """How many clips each draw has."""
        return len(self.one[0]) if self.one else 0


def draw_clips(groups: Int[np.ndarray, " clip"], count: int, seed: int = 0) -> Draws:
    """``count`` draws of each kind; none where no group has two clips."""
    total, most = len(groups), int(groups.max(initial=-1)) + 1
    if most == total or count < 1:
        return Draws([], [])
    rng = np.random.default_rng(seed)
    one, control = [], []
    for _ in range(count):
        order = rng.permutation(total)
        one.append(np.sort(order[np.unique(groups[order], return_index=True)[1]]))
        control.append(np.sort(rng.choice(total, most, replace=False)))
    return Draws(one, control)


def group_weights(groups: Int[np.ndarray, " clip"], resamples: int, seed: int = 0) -> Float[np.ndarray, "resample clip"]:
    """How often each clip is drawn when as many groups as there are are drawn with replacement, each with all its clips."""
    count = int(groups.max()) + 1
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=resamples)
    return drawn[:, groups].astype(float)
