"""What a method is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from ..data import Dataset
from ..evaluation import EvaluationError
from ..evaluation.classifiers import centroid_directions
from ..evaluation.folds import Parts
from ..models import Encoder
from .gain import ResiDual
from .objective import Objective, centred
from .shares import direct_shares
from .streams import Streams
from .train import Epoch, Lesson


@dataclass(frozen=True)
class Setting:
    """An encoder and a dataset, ready to be adapted: streams cached, prompts embedded, folds fixed.

    ``streams`` enter the first adapted block; ``inputs`` are the model's own, there when a method needs the whole encoder.
    """

    encoder: Encoder
    dataset: Dataset
    streams: Streams
    embeddings: Float[Tensor, "clip d"]
    directions: Float[Tensor, "class d"] | None
    errors: dict[str, str]
    inputs: Streams | None = None
    _shares: dict[tuple[int, ...], Tensor] = field(default_factory=dict, repr=False)

    def shares(self, units: tuple[int, ...]) -> Float[Tensor, "clip unit d"]:
        """Direct shares of all clips, of the units with these numbers; computed once."""
        if units not in self._shares:
            self._shares[units] = direct_shares(self.whole, self.rows, units)
        return self._shares[units]

    @property
    def whole(self) -> Streams:
        if self.inputs is None:
            raise EvaluationError("this method runs the whole encoder: prepare with inputs=True")
        return self.inputs

    @property
    def rows(self) -> np.ndarray:
        """Of all clips."""
        return np.arange(len(self.streams))


@dataclass(frozen=True)
class FoldTask:
    """Everything a method may use; ``parts.test`` only to be scored, once. ``tell`` is told of every epoch of training."""

    setting: Setting
    targets: Int[Tensor, " clip"]
    parts: Parts
    seed: int
    tell: Callable[[Epoch], object] | None = None

    @property
    def encoder(self) -> Encoder:
        return self.setting.encoder

    @property
    def streams(self) -> Streams:
        return self.setting.streams

    @property
    def classes(self) -> int:
        return len(self.setting.dataset.labels)

    @property
    def directions(self) -> Float[Tensor, "class d"] | None:
        return self.setting.directions

    def by_text(self, classifier: str) -> bool:
        """Whether the test clips are classified by prompts; else by centroids."""
        return classifier in ("prompts", "both") or (classifier == "auto" and self.directions is not None)

    def objective(self, classifier: str, scale: float | None = None) -> Objective:
        """What training makes smaller; ``scale``: of the cosines, the model's own where none is given."""
        by_text = self.by_text(classifier)
        centroids = classifier in ("centroids", "both") or not by_text
        return Objective(self.directions if by_text else None, centroids, self.encoder.logit_scale if scale is None else scale)

    def lesson(self, classifier: str, scale: float | None) -> Lesson:
        return Lesson(self.parts.train, self.parts.stop, self.targets, self.classes, self.objective(classifier, scale))

    def scores(self, embeddings: Float[Tensor, "clip d"], classifier: str) -> Float[Tensor, "test class"]:
        """Of the test clips, from the embeddings of all clips: prompts, or centroids of every clip that is not in the test."""
        test, seen = self.parts.test, self.parts.seen
        if self.by_text(classifier) and self.directions is not None:
            return F.normalize(embeddings[test], dim=-1) @ self.directions.T
        centre = F.normalize(embeddings[seen], dim=-1).mean(0)
        directions = centroid_directions(centred(embeddings[seen], centre), self.targets[seen], self.classes)
        return centred(embeddings[test], centre) @ directions.T


@dataclass(frozen=True)
class Adaptation:
    """What a method leaves: an adapted encoder (``embed`` gives the embeddings of any setting's clips), or ``scores`` of the test clips.

    ``trained``: how many numbers were learned; ``residual``: what can be saved and folded.
    """

    trained: int
    embed: Callable[[Setting], Tensor] | None = None
    scores: Float[Tensor, "test class"] | None = None
    residual: ResiDual | None = None
    history: list[Epoch] = field(default_factory=list)
