"""What only a model can say, handed to the page as arrays: the page itself never opens one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .pack import digits, floats, quantised

AXES, NUMBERS = 8, 1_800_000  # sliders per head; numbers that all of them together may cost
CLIPS_PER_TEXT = 3


@dataclass(frozen=True)
class ModelPart:
    """``classifier``: where class directions come from; ``base``, ``whole``, ``axis``, ``dropped``, ``adapted`` are of the run's ``rows``.

    ``whole [clip, head, class]``: score of a head's output about its mean; ``axis[i] [clip, axis, class]`` that of head ``knobs[i]`` along
    its axes; ``gain[i]`` what was learned. ``texts``: (text, "class" or "word"); ``scores [every clip, text]``; ``share [text, unit]``;
    ``components[t]``: (unit number, component, share, cosine of axis and text); ``maps``: (row, text number) → ``[frequency, time]``.
    """

    classifier: str
    rows: np.ndarray
    base: np.ndarray
    whole: np.ndarray
    knobs: Sequence[str]
    axis: Sequence[np.ndarray]
    gain: Sequence[np.ndarray]
    dropped: np.ndarray
    adapted: np.ndarray | None
    texts: Sequence[tuple[str, str]]
    scores: np.ndarray
    share: np.ndarray | None = None
    components: Sequence[Sequence[tuple[int, int, float, float]]] = ()
    maps: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    counted: int = 0
    notes: Sequence[str] = ()


def top_clips(scores: np.ndarray, rows: np.ndarray) -> list[list[int]]:
    """Per text, the run's rows, among those on the page, with the largest cosines."""
    order = np.argsort(-scores[rows], axis=0, kind="stable")[:CLIPS_PER_TEXT].T
    return [[int(rows[i]) for i in some] for some in order]


def equaliser(part: ModelPart, place: dict[int, int], learned: bool) -> dict[str, Any]:
    """Direct effects of every knob, quantised. Axes without a slider keep their learned gain in ``rest``."""
    clips, _, classes = part.whole.shape
    total = max(1, sum(a.shape[1] for a in part.axis))
    kept = max(1, min(AXES, int(NUMBERS / (clips * classes * len(part.axis))))) if total * clips * classes > NUMBERS else AXES
    axis = [a[:, :kept] for a in part.axis]
    rest = np.stack([np.einsum("cak,a->ck", a[:, kept:], g[kept:] - 1) for a, g in zip(part.axis, part.gain, strict=True)], 1)
    return {
        "clips": [place[int(r)] for r in part.rows],
        "classifier": part.classifier,
        "base": floats(part.base),
        "adapted": None if part.adapted is None else floats(part.adapted),
        "dropped": floats(part.dropped) if np.abs(part.dropped).max() > 0 else None,
        "whole": quantised(part.whole.transpose(1, 0, 2), (1, 2)),
        "learned": learned,
        "heads": list(part.knobs),
        "gains": [digits(g[:kept]) for g in part.gain],
        "further": [digits(g[kept:]) for g in part.gain],
        "axis": [quantised(a.transpose(1, 0, 2), (1, 2)) for a in axis],
        "rest": quantised(rest.transpose(1, 0, 2), (1, 2)) if np.abs(rest).max() > 0 else None,
    }


def ask(part: ModelPart, units: list[str], place: dict[int, int]) -> dict[str, Any] | None:
    """Per text: what every unit adds, the best components, and the clips that show it with their maps."""
    if part.share is None:
        return None
    rows = np.array(sorted(place))
    texts = []
    for t, clips in enumerate(top_clips(part.scores, rows)):
        text, kind = part.texts[t]
        shown = []
        for row in clips:
            one: dict[str, Any] = {"clip": place[row], "score": digits([part.scores[row, t]])[0]}
            if (row, t) in part.maps:
                one["map"] = quantised(part.maps[row, t], (0, 1))
            shown.append(one)
        parts = [[int(u), int(k), *digits([share, along], 3)] for u, k, share, along in part.components[t]]
        texts.append({"text": text, "kind": kind, "share": digits(part.share[t], 3), "components": parts, "clips": shown})
    return {"units": units, "texts": texts, "counted": part.counted, "classifier": part.classifier}
