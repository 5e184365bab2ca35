"""Centroids: the cosine with the mean of each class's clips in the other folds, all centred by their common mean."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from ...data import Dataset
from ..classifier import CLASSIFIERS, Classifier, FoldClassifier, fold_places
from ..directions import centroid_directions


def fit(
    embeddings: Float[Tensor, "clip d"], dataset: Dataset, directions: Float[Tensor, "class d"] | None = None, seed: int = 0
) -> FoldClassifier:
    fold, count = fold_places(dataset)
    unit, targets = F.normalize(embeddings, dim=-1), torch.from_numpy(dataset.targets)
    centres = torch.stack([unit[fold != f].mean(0) for f in range(count)])
    classes = len(dataset.labels)
    weight = torch.stack([centroid_directions(unit[fold != f] - centres[f], targets[fold != f], classes) for f in range(count)])
    # A class without clips has no direction; its score is below any cosine, so that it never wins.
    return FoldClassifier(fold, centres, weight, -2.0 * (weight == 0).all(-1).to(weight))


CLASSIFIERS.add(Classifier("centroids", "cosine with the mean of each class's clips in the other folds", fit, order=20))
