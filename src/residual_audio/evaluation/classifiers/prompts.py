"""Prompts: the cosine with the text embedding of each class. Nothing is learned, so every clip is scored alike."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ...data import Dataset
from ..classifier import CLASSIFIERS, Classifier, FoldClassifier
from ..errors import EvaluationError


def fit(
    embeddings: Float[Tensor, "clip d"], dataset: Dataset, directions: Float[Tensor, "class d"] | None, seed: int = 0
) -> FoldClassifier:
    if directions is None:
        raise EvaluationError("the classifier prompts needs the directions of the class prompts")
    zero = torch.zeros_like(directions)
    return FoldClassifier(torch.zeros(len(dataset), dtype=torch.int64), zero[:1], directions[None], zero[None, :, 0])


CLASSIFIERS.add(Classifier("prompts", "cosine with the text embedding of each class", fit, needs_text=True, reads_folds=False, order=10))
