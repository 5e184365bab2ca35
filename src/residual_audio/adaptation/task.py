"""What a method is given: a fold's clips and parts, and the choices that all methods share."""

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
from .train import Epoch, Lesson, Training

RANKINGS = ("fisher", "ablation", "text")


@dataclass(frozen=True)
class Recipe:
    """The choices that methods share; all are recorded.

    ``basis``: "own" (the basis part of the task's clips) or the folder of another extraction, whose moments give a transferred basis.
    ``by``: gains only for the ``top`` heads of ``units`` by a ranking on the training part; without a number, 20 of them, or half where
    they are fewer than 40. ``lora_rank``, ``lora_rate`` and ``finetune_rate`` are those methods' own.
    """

    units: str = "heads"
    level: str = "token"
    kept: int | float | None = None
    start: float | None = None
    mean: str = "keep"
    objective: str = "auto"
    scale: float | None = None
    top: int | None = None
    training: Training = field(default_factory=Training)
    basis: str = "own"
    by: str | None = None
    lora_rank: int = 4
    lora_rate: float = 1e-3
    finetune_rate: float = 1e-4

    def __post_init__(self) -> None:
        for name, allowed in (
            ("level", ("token", "clip")),
            ("mean", ("keep", "drop")),
            ("objective", ("auto", "prompts", "centroid", "both")),
            ("by", (None, *RANKINGS)),
        ):
            if getattr(self, name) not in allowed:
                known = ", ".join(a for a in allowed if a is not None)  # type: ignore[attr-defined]
                raise EvaluationError(f"unknown {name} {getattr(self, name)!r}; one of {known}")
        if self.kept is not None and not (self.kept >= 1 if isinstance(self.kept, int) else 0 < self.kept < 1):
            raise EvaluationError(f"kept axes: {self.kept} is neither a number of axes nor a share between 0 and 1")


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
    """Everything a method may use; ``parts.test`` only to be scored, once."""

    setting: Setting
    targets: Int[Tensor, " clip"]
    parts: Parts
    recipe: Recipe
    seed: int

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

    @property
    def by_text(self) -> bool:
        """Whether the test clips are classified by prompts; else by centroids."""
        return self.recipe.objective in ("prompts", "both") or (self.recipe.objective == "auto" and self.directions is not None)

    def objective(self) -> Objective:
        learned = self.recipe.objective in ("centroid", "both") or not self.by_text
        scale = self.encoder.logit_scale if self.recipe.scale is None else self.recipe.scale
        return Objective(self.directions if self.by_text else None, learned, scale)

    def lesson(self) -> Lesson:
        return Lesson(self.parts.train, self.parts.stop, self.targets, self.classes, self.objective())

    def scores(self, embeddings: Float[Tensor, "clip d"]) -> Float[Tensor, "test class"]:
        """Of the test clips, from the embeddings of all clips: prompts, or centroids of every clip that is not in the test."""
        test, seen = self.parts.test, self.parts.seen
        if self.by_text and self.directions is not None:
            return F.normalize(embeddings[test], dim=-1) @ self.directions.T
        centre = F.normalize(embeddings[seen], dim=-1).mean(0)
        directions = centroid_directions(centred(embeddings[seen], centre), self.targets[seen], self.classes)
        return centred(embeddings[test], centre) @ directions.T


@dataclass(frozen=True)
class FoldResult:
    """Scores of the test clips, how many numbers were trained, and what came out of it.

    ``embed`` gives the embeddings of any setting's clips by the adapted model, where the method leaves one.
    """

    scores: Float[Tensor, "test class"]
    trained: int
    embed: Callable[[Setting], Tensor] | None = None
    residual: ResiDual | None = None
    history: list[Epoch] = field(default_factory=list)
