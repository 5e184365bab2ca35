"""From embeddings to class scores: one fixed linear readout a fold, made from the other folds or from prompts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from ..data import Dataset
from .classifiers import centroid_directions
from .probe import fit_probe


class EvaluationError(ValueError):
    """A question that this encoder and this dataset cannot answer."""


@dataclass(frozen=True)
class Readout:
    """Scores of clip i: ``weight[fold[i]] · normalise(e − centre[fold[i]]) + bias[fold[i]]``. No clip helped to make its own."""

    fold: Int[Tensor, " clip"]
    centre: Float[Tensor, "fold d"]
    weight: Float[Tensor, "fold class d"]
    bias: Float[Tensor, "fold class"]

    def scores(self, embeddings: Float[Tensor, "*unit clip d"], rows: slice = slice(None)) -> Float[Tensor, "*unit clip class"]:
        """``embeddings`` of the clips ``rows``, possibly in several versions; any length."""
        fold = self.fold[rows]
        moved = F.normalize(F.normalize(embeddings, dim=-1) - self.centre[fold], dim=-1)
        return torch.einsum("...nd,ncd->...nc", moved, self.weight[fold]) + self.bias[fold]


def prompt_readout(directions: Float[Tensor, "class d"], clips: int) -> Readout:
    """The cosine with each class's prompts, for every clip alike."""
    zero = torch.zeros_like(directions)
    return Readout(torch.zeros(clips, dtype=torch.int64), zero[:1], directions[None], zero[None, :, 0])


def _folds(dataset: Dataset) -> tuple[Int[Tensor, " clip"], int]:
    numbers = torch.tensor([c.fold for c in dataset.clips])
    values, place = numbers.unique(return_inverse=True)
    if len(values) < 2:
        raise EvaluationError(f"{dataset.name}: this classifier needs at least two folds")
    return place, len(values)


def centroid_readout(embeddings: Float[Tensor, "clip d"], dataset: Dataset) -> Readout:
    """The cosine with the centroids of the other folds' clips, all centred by their mean."""
    fold, count = _folds(dataset)
    unit, targets = F.normalize(embeddings, dim=-1), torch.from_numpy(dataset.targets)
    centres = torch.stack([unit[fold != f].mean(0) for f in range(count)])
    classes = len(dataset.labels)
    weight = torch.stack([centroid_directions(unit[fold != f] - centres[f], targets[fold != f], classes) for f in range(count)])
    # A class without clips has no direction; its score is below any cosine, so that it never wins.
    return Readout(fold, centres, weight, -2.0 * (weight == 0).all(-1).to(weight))


def probe_readout(embeddings: Float[Tensor, "clip d"], dataset: Dataset, seed: int = 0) -> Readout:
    """Logistic regression on the other folds' unit-length embeddings."""
    fold, count = _folds(dataset)
    unit, targets = F.normalize(embeddings, dim=-1), torch.from_numpy(dataset.targets)
    fitted = [fit_probe(unit[fold != f], targets[fold != f], len(dataset.labels), seed) for f in range(count)]
    weight = torch.stack([w for w, _, _ in fitted])
    return Readout(fold, torch.zeros_like(weight[:, 0]), weight, torch.stack([b for _, b, _ in fitted]))
