"""What a method is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from ..data import Dataset
from ..evaluation import Classifier, EvaluationError, Examples, Fitted, choose_classifier
from ..evaluation.folds import Parts
from ..models import Encoder
from .gain import ResiDual
from .objective import Objective
from .shares import direct_shares
from .streams import Streams
from .train import Epoch, Lesson


@dataclass(frozen=True)
class Setting:
    """An encoder and a dataset, ready to be adapted: streams cached, prompts embedded, folds fixed.

    ``streams`` enter the first adapted block; ``inputs`` are the model's own, there when a method needs the whole encoder. Behind the clips
    of the dataset, streams may have further ones without labels, whose embeddings are ``beside``: clips whose answers are kept.
    ``kept`` is what records say of them: where they are from, how many, and which could not be read.
    """

    encoder: Encoder
    dataset: Dataset
    streams: Streams
    embeddings: Float[Tensor, "clip d"]
    directions: Float[Tensor, "class d"] | None
    errors: dict[str, str]
    inputs: Streams | None = None
    beside: Float[Tensor, "other d"] | None = None
    kept: dict[str, Any] = field(default_factory=dict)
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
        """Of all clips of the dataset."""
        return np.arange(len(self.dataset))

    @property
    def every(self) -> Float[Tensor, "clip d"]:
        """The embeddings of the dataset's clips, and of those behind them."""
        return self.embeddings if self.beside is None else torch.cat([self.embeddings, self.beside])

    @property
    def unlabelled(self) -> np.ndarray:
        """Of the clips behind them."""
        return np.arange(len(self.dataset), len(self.streams))


@dataclass(frozen=True)
class FoldTask:
    """Everything a method may use; ``parts.test`` only to be scored, once. ``tell`` is told of every epoch of training;
    ``begin``: what learning goes on from, instead of the model as it is."""

    setting: Setting
    targets: Int[Tensor, " clip"]
    parts: Parts
    seed: int
    tell: Callable[[Epoch], object] | None = None
    begin: ResiDual | None = None

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

    def aim(self, towards: str) -> Classifier:
        """The classifier that training works towards; of both, the prompts."""
        return choose_classifier("prompts" if towards == "both" else towards, self.encoder)

    def objective(self, towards: str, scale: float | None = None) -> Objective:
        """What training makes smaller; ``scale``: of the cosines, the model's own where none is given."""
        by_text = towards in ("prompts", "both") or (towards == "auto" and self.directions is not None)
        centroids = towards in ("centroids", "both") or not by_text
        return Objective(self.directions if by_text else None, centroids, self.encoder.logit_scale if scale is None else scale)

    def lesson(self, towards: str, scale: float | None, keep: float = 0.0) -> Lesson:
        """``keep``: how much embeddings are held to those of the model as it is."""
        objective = self.objective(towards, scale)
        parts, plain, unlabelled = self.parts, self.setting.every, self.setting.unlabelled
        return Lesson(parts.train, parts.stop, self.targets, self.classes, objective, keep, plain, unlabelled, parts.trusting)

    def fitted(self, embeddings: Float[Tensor, "clip d"], classifier: Classifier) -> Fitted:
        """A classifier of every clip that is not in the test; ``embeddings`` of all clips."""
        seen, groups = self.parts.seen, self.setting.dataset.groups
        unit, own = F.normalize(embeddings[seen], dim=-1), [groups[i] for i in seen]
        scale = self.encoder.logit_scale
        return classifier.fit(Examples(unit, self.targets[seen], self.classes, own, self.directions, scale, self.seed))

    def scores(self, embeddings: Float[Tensor, "clip d"], classifier: Classifier) -> Float[Tensor, "test class"]:
        """Of the test clips, from the embeddings of all clips."""
        return self.fitted(embeddings, classifier).scores(embeddings[self.parts.test])


@dataclass(frozen=True)
class Adaptation:
    """What a method leaves: an adapted encoder (``embed`` gives the embeddings of any setting's clips), or ``scores`` of the test clips.

    ``trained``: how many numbers were learned; ``residual``: what can be saved. ``fold()``: an ordinary encoder with what was learned
    in its weights; ``scaled(τ)``: the same at a part of its strength, 1 + τ(g − 1). Both are None for what does not fold.
    """

    trained: int
    embed: Callable[[Setting], Tensor] | None = None
    scores: Float[Tensor, "test class"] | None = None
    residual: ResiDual | None = None
    history: list[Epoch] = field(default_factory=list)
    fold: Callable[[], Encoder] | None = None
    scaled: Callable[[float], Adaptation] | None = None
