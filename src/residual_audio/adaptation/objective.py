"""What the gains are trained on: the distance to prompts, to class centroids that move with the gains, or both."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def centred(embedding: Float[Tensor, "*clip d"], centre: Float[Tensor, " d"]) -> Float[Tensor, "*clip d"]:
    """Unit vectors about a centre, as the centroid classifier sees them."""
    return F.normalize(F.normalize(embedding, dim=-1) - centre, dim=-1)


class CentroidBank:
    """The latest embedding of every training clip. Centroids are made anew at every step, from the batch as it is now and the rest as it
    was last seen; a clip is compared with its own class without itself."""

    def __init__(self, embeddings: Float[Tensor, "clip d"], targets: Int[Tensor, " clip"], classes: int) -> None:
        self.targets, self.members = targets, F.one_hot(targets, classes).to(embeddings.dtype)
        self.store(embeddings, slice(None))

    def store(self, embeddings: Float[Tensor, "row d"], rows: Tensor | slice) -> None:
        if isinstance(rows, slice):
            self.values = F.normalize(embeddings.detach(), dim=-1)
        else:
            self.values[rows] = F.normalize(embeddings.detach(), dim=-1)
        self.centre = self.values.mean(0)

    def logits(self, embeddings: Float[Tensor, "row d"], rows: Int[Tensor, " row"]) -> Float[Tensor, "row class"]:
        """Cosines with every class, the clip's own class without it. The gradient passes through the batch's part of the centroids too."""
        live = centred(embeddings, self.centre)
        frozen = centred(self.values, self.centre)
        members = self.members[rows]
        sums = self.members.T @ frozen + members.T @ (live - frozen[rows])
        own = self.targets[rows]
        cosines = live @ F.normalize(sums, dim=-1).T
        alone = (live * F.normalize(sums[own] - live, dim=-1)).sum(-1, keepdim=True)
        return cosines.scatter(1, own[:, None], alone)

    def scores(self, embeddings: Float[Tensor, "row d"]) -> Float[Tensor, "row class"]:
        """Of clips that are not in the bank."""
        directions = F.normalize(self.members.T @ centred(self.values, self.centre), dim=-1)
        return centred(embeddings, self.centre) @ directions.T


@dataclass(frozen=True)
class Objective:
    """``directions``: class texts, or None; ``centroids``: whether class centroids are learned from; ``scale``: of the logits."""

    directions: Float[Tensor, "class d"] | None
    centroids: bool
    scale: float

    def loss(self, embeddings: Tensor, rows: Tensor, targets: Int[Tensor, " row"], bank: CentroidBank | None) -> Tensor:
        """Cross-entropy; the mean of the two where both are asked for."""
        parts = []
        if self.directions is not None:
            parts.append(F.cross_entropy(self.scale * F.normalize(embeddings, dim=-1) @ self.directions.T, targets))
        if bank is not None:
            parts.append(F.cross_entropy(self.scale * bank.logits(embeddings, rows), targets))
        return torch.stack(parts).mean()

    def scores(self, embeddings: Tensor, bank: CentroidBank | None) -> Float[Tensor, "clip class"]:
        """Of clips outside training, on the scale of the loss."""
        parts = []
        if self.directions is not None:
            parts.append(F.normalize(embeddings, dim=-1) @ self.directions.T)
        if bank is not None:
            parts.append(bank.scores(embeddings))
        return self.scale * torch.stack(parts).mean(0)
