"""What a classifier is: from embeddings to class scores by one fixed linear map per fold, made from the other folds or from prompts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from ..data import Dataset
from ..models import Encoder
from ..registry import Registry
from .errors import EvaluationError

# Every clip has its fold's weights beside it: memory stays small however many clips there are.
CLIPS_AT_ONCE = 64
# What `auto` means: the first of these that the encoder allows.
AUTO = ("prompts", "centroids")


@dataclass(frozen=True)
class FoldClassifier:
    """Scores of clip i: ``weight[fold[i]] · normalise(e − centre[fold[i]]) + bias[fold[i]]``. No clip helped to make its own."""

    fold: Int[Tensor, " clip"]
    centre: Float[Tensor, "fold d"]
    weight: Float[Tensor, "fold class d"]
    bias: Float[Tensor, "fold class"]

    def scores(self, embeddings: Float[Tensor, "*unit clip d"], rows: slice = slice(None)) -> Float[Tensor, "*unit clip class"]:
        """``embeddings`` of the clips ``rows``, possibly in several versions; any length."""
        fold = self.fold[rows]
        moved = F.normalize(F.normalize(embeddings, dim=-1) - self.centre[fold], dim=-1)
        parts = zip(moved.split(CLIPS_AT_ONCE, -2), fold.split(CLIPS_AT_ONCE), strict=True)
        return torch.cat([torch.einsum("...nd,ncd->...nc", some, self.weight[f]) for some, f in parts], -2) + self.bias[fold]


@dataclass(frozen=True)
class Classifier:
    """One way from embeddings to class scores.

    ``fit(embeddings, dataset, directions, seed)`` makes it for a dataset with folds; ``directions`` are those of the class prompts, or
    None. ``needs_text``: it reads them, so the encoder has to have a text side. ``reads_folds``: it learns from the other folds.
    """

    name: str
    help: str
    fit: Callable[[Tensor, Dataset, Tensor | None, int], FoldClassifier]
    needs_text: bool = False
    reads_folds: bool = True
    order: int = 50


CLASSIFIERS: Registry[Classifier] = Registry("classifier", "residual_audio.evaluation.classifiers", EvaluationError)


def choose_classifier(name: str, encoder: Encoder, template: str | None = None) -> Classifier:
    """A classifier by name, or by ``auto``; refused where the encoder lacks what it needs, or where nobody would read ``template``."""
    if name == "auto":
        name = next(n for n in AUTO if encoder.has_text or not CLASSIFIERS[n].needs_text)
    chosen = CLASSIFIERS[name]
    if chosen.needs_text and not encoder.has_text:
        others = " or ".join(n for n, c in CLASSIFIERS.items() if not c.needs_text)
        raise EvaluationError(f"{encoder.name} has no text side, which the classifier {name} needs; use --classifier {others}")
    if template is not None and not chosen.needs_text:
        readers = ", ".join(n for n, c in CLASSIFIERS.items() if c.needs_text)
        raise EvaluationError(
            f"--template {template!r}: the classifier {name} reads no prompts; leave it out, or use one that does: {readers}"
        )
    return chosen


def fold_places(dataset: Dataset) -> tuple[Int[Tensor, " clip"], int]:
    """Each clip's fold as 0, 1, 2, …, and how many there are; a single fold leaves nothing to learn from."""
    numbers = torch.tensor([c.fold for c in dataset.clips])
    values, place = numbers.unique(return_inverse=True)
    if len(values) < 2:
        raise EvaluationError(f"{dataset.name}: this classifier needs at least two folds")
    return place, len(values)
