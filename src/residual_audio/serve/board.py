"""The equaliser: what sliders do to some clips of the run, through the whole network and as a direct effect."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from ..adaptation.attach import attached
from ..adaptation.gain import ResiDual
from ..adaptation.streams import Streams, advanced, cache_streams, first_block
from ..evaluation.metrics import margins, outcome, per_class_mean
from ..models import Encoder
from ..models.encoder import Source
from ..report.page.effects import Knobs
from ..report.page.model_part import ModelPart
from .setting import Moves, gains_now

PREFIXES = 3  # streams that are kept, each entering another block


@dataclass(frozen=True)
class Board:
    """Sliders of one adapter (or of none) and what each does to the clips ``part.rows``."""

    name: str | None
    residual: ResiDual | None
    knobs: Knobs
    part: ModelPart
    packed: dict[str, Any]

    def direct(self, heads: Sequence[str], strength: float, moves: Moves) -> Float[np.ndarray, "clip class"]:
        """Scores with all norms held: the page's own sum, of numbers that were not rounded."""
        part, t = self.part, strength if self.residual is not None else 0.0
        total = part.base + t * part.dropped
        for label, s in moves.volume.items():
            total = total + (s - 1) * part.whole[:, heads.index(label)]
        for number, label in enumerate(self.knobs.heads):
            gain = gains_now(self.knobs, number, t, moves).numpy()
            total = total + moves.volume.get(label, 1.0) * np.einsum("cak,a->ck", part.axis[number], gain - 1)
        return total


def judged(scores: Float[np.ndarray, "clip class"], targets: np.ndarray) -> dict[str, Any]:
    """Accuracy (ties are wrong), mean margin, accuracy by class, and what was chosen."""
    found, classes = outcome(scores, targets), scores.shape[1]
    share = per_class_mean(found.correct, targets, classes)
    return {
        "accuracy": float(found.correct.mean()),
        "margin": float(margins(scores, targets).mean()) if classes > 1 else None,
        "by_class": [None if np.isnan(v) else float(v) for v in share],
        "predicted": found.predicted.tolist(),
    }


class Bench:
    """Clips whose streams are kept where the changes of the last settings begin: only what comes after runs again."""

    def __init__(self, encoder: Encoder, sources: Sequence[Source], directions: Float[Tensor, "class d"], offset: Tensor | None) -> None:
        self.encoder, self.sources, self.directions, self.offset = encoder, list(sources), directions, offset
        self.inputs: Streams | None = None
        self.prefixes: OrderedDict[int, Streams] = OrderedDict()

    def streams(self, block: int) -> Streams:
        if self.inputs is None:
            self.inputs = cache_streams(self.encoder, self.sources, None)
        if block not in self.prefixes:
            self.prefixes[block] = advanced(self.inputs, block)
            while len(self.prefixes) > PREFIXES:
                self.prefixes.popitem(last=False)
        self.prefixes.move_to_end(block)
        return self.prefixes[block]

    @torch.inference_mode()
    def scores(self, residual: ResiDual) -> Float[np.ndarray, "clip class"]:
        """Of the whole network with the change at work: what the folded checkpoint gives."""
        streams = self.streams(first_block(self.encoder, [one.place for one in residual.sets]))
        with attached(self.encoder, residual.to(self.encoder.device, self.encoder.dtype)):
            embedding = F.normalize(streams.embed(np.arange(len(streams))), dim=-1)
        return scored(embedding, self.directions, self.offset).numpy()


def scored(unit: Float[Tensor, "clip d"], directions: Float[Tensor, "text d"], offset: Tensor | None) -> Float[Tensor, "clip text"]:
    """Cosines; of centroids, about the mean of the run's clips."""
    return (unit @ directions.to(unit).T - (0 if offset is None else offset.to(unit))).float().cpu()
