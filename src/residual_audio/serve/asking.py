"""Any text, asked of a run: the same record that the page has packed for classes and words of a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..media import MediaError
from ..models.batching import as_batch
from ..models.readings import DIRECT
from ..models.recording import recorded
from ..report.page.answers import Movers, answers
from ..report.page.effects import Scoring, asked_maps
from ..report.page.gather import pool_rows
from ..report.page.model import COUNTED
from ..report.page.model_part import ModelPart, ask, top_clips
from .entry import Entry
from .problems import Problem

MOVERS_BYTES = 2**29


@torch.inference_mode()
def asked(entry: Entry, text: str) -> dict[str, Any]:
    """Every unit's share of the variation towards the text, the best components, and the page's clips that show it with their maps."""
    run = entry.need_run()
    if "direct.units" not in run.keys:
        raise Problem(404, "the run has no direct shares; extract with --granularity head,moments,direct")
    direction = entry.texts([text])
    scores = (entry.embeddings @ direction.T).numpy()
    common = movers(entry)
    moved = answers(run, direction, common.rows, common)
    rows = np.array(sorted(entry.page_rows))
    maps = {key: plane for row in top_clips(scores, rows)[0] for key, plane in mapped(entry, row, direction).items()}
    none = np.zeros((0, 0), np.float32)
    part = ModelPart(
        "cosine with the text", rows, none, none, (), (), (), none, None, [(text, "typed")], scores, moved.share.numpy(), moved.components,
        maps, moved.clips,
    )  # fmt: skip
    place = {row: i for i, row in enumerate(entry.page_rows)}
    answer = ask(part, [u.label for u in run.units], place)
    assert answer is not None
    return {**answer["texts"][0], "counted": moved.clips}


def movers(entry: Entry) -> Movers:
    """What every question has in common; kept with the entry, where it fits."""
    found = entry.kept.get("movers")
    if found is None:
        run = entry.need_run()
        found = Movers.of(run, pool_rows(run.clips["label"].astype(str), COUNTED))
        if found.shares.nbytes <= MOVERS_BYTES:
            entry.kept["movers"] = found
    return found


def mapped(entry: Entry, row: int, direction: torch.Tensor) -> dict[tuple[int, int], np.ndarray]:
    """The map of one clip of the page; none of an image, of several windows, or of a clip that is not there any more."""
    if entry.media != "sound":
        return {}
    try:
        prepared = entry.encoder.prepare(entry.clip(row).source)
    except MediaError:
        return {}
    if len(prepared.features) != 1:
        return {}
    features, longer, _ = as_batch(entry.encoder, [prepared])
    scoring = Scoring.of(recorded(entry.encoder, features, longer, DIRECT), entry.ways)
    return asked_maps(scoring, [row], {row: [0]}, direction)
