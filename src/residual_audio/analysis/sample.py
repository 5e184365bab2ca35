"""Which clips an analysis looks at, what belongs together among them, and what flat data of that size would say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from ..sampling import stratified_rows
from .flat import flat_reference
from .groups import Draws, Rows, draw_clips, group_codes
from .views import StoredRun


@dataclass(frozen=True)
class Sample:
    """The clips that are looked at (``rows`` None: all), the numbers of their groups, and the draws of one clip per group."""

    rows: Rows | None
    groups: Int[np.ndarray, " clip"]
    draws: Draws

    @property
    def note(self) -> str:
        """What was done about clips of one recording."""
        clips, count = len(self.groups), int(self.groups.max()) + 1
        if count == clips:
            return "no recording has two clips (or the run does not say which clips are of one recording): every clip is its own"
        if not self.draws.one:
            return f"{clips} clips of {count} recordings; one clip per recording was not asked for"
        return f"{clips} clips of {count} recordings; one clip per recording: means over {len(self.draws.one)} draws of {count} clips"


def sample_of(run: StoredRun, points: int | None, count: int, seed: int) -> Sample:
    """All clips of a run, or at most ``points`` of them, evenly over classes and folds, and ``count`` draws of one clip per group."""
    total, rows = len(run.clips), None
    if points is not None and points < total:
        folds = run.clips["fold"] if "fold" in run.clips else [-1] * total
        rows = np.array(stratified_rows(list(run.clips["label"]), list(folds), points, seed))
    groups = group_codes(run.clips, rows)
    return Sample(rows, groups, draw_clips(groups, count, seed))


def flat_references(run: StoredRun, sample: Sample, k: int, seed: int) -> list[dict[str, float]]:
    """Of as many clips as were looked at, and as one draw has."""
    sizes = [len(sample.groups), *([sample.draws.clips] if sample.draws.one else [])]
    return [flat_reference(n, run.units.d_head[0], k, seed) for n in sizes]
