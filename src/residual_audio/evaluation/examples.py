"""What a classifier may learn from, and how it chooses what its paper leaves open: inside these clips, by group."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..data import Dataset, grouped_folds
from .errors import EvaluationError
from .scorers import Scorer

INNER_FOLDS = 3
Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Examples:
    """Labelled clips (``embeddings`` of unit length) and unit class texts, where there are any. ``scale``: the model's own logit scale."""

    embeddings: Float[Tensor, "clip d"]
    targets: Int[Tensor, " clip"]
    classes: int
    groups: Sequence[Hashable]
    texts: Float[Tensor, "class d"] | None = None
    scale: float = 1.0
    seed: int = 0

    @classmethod
    def of(
        cls,
        embeddings: Float[Tensor, "clip d"],
        dataset: Dataset,
        texts: Float[Tensor, "class d"] | None = None,
        scale: float = 1.0,
        seed: int = 0,
    ) -> Examples:
        """All clips of a dataset, with embeddings of any length."""
        unit, targets = F.normalize(embeddings, dim=-1), torch.from_numpy(dataset.targets)
        return cls(unit, targets, len(dataset.labels), dataset.groups, texts, scale, seed)

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def one_hot(self) -> Float[Tensor, "clip class"]:
        return F.one_hot(self.targets, self.classes).to(self.embeddings)

    def only(self, keep: Bool[Tensor, " clip"]) -> Examples:
        """Some of the clips."""
        groups = list(compress(self.groups, keep.tolist()))
        return replace(self, embeddings=self.embeddings[keep], targets=self.targets[keep], groups=groups)

    def present(self) -> tuple[Int[Tensor, " present"], Examples]:
        """The classes that have clips, and the same clips with the others left out of the numbering."""
        present, targets = self.targets.unique(return_inverse=True)
        if len(present) == self.classes:
            return present, self
        texts = None if self.texts is None else self.texts[present]
        return present, replace(self, targets=targets, classes=len(present), texts=texts)

    def texts_for(self, name: str) -> Float[Tensor, "class d"]:
        """The class texts, of a classifier that cannot do without them."""
        if self.texts is None:
            raise EvaluationError(f"the classifier {name} needs the directions of the class prompts")
        return self.texts

    @property
    def zero_shot(self) -> Float[Tensor, "class d"]:
        """Weights of the zero-shot classifier on the model's own scale; zero where there are no texts."""
        return self.embeddings.new_zeros(self.classes, self.embeddings.shape[1]) if self.texts is None else self.scale * self.texts


def inner_folds(targets: np.ndarray, groups: Sequence[Hashable], seed: int) -> np.ndarray | None:
    """Three folds that keep groups together; None where a class has too few clips for them, or a fold would leave one class to learn."""
    folds = np.array(grouped_folds(targets.tolist(), groups, INNER_FOLDS, seed))
    enough = np.unique(targets, return_counts=True)[1].min() >= INNER_FOLDS
    learnable = all(len(np.unique(targets[folds != fold])) > 1 for fold in np.unique(folds))
    return folds if enough and learnable and len(np.unique(folds)) > 1 else None


def choose(examples: Examples, choices: Sequence[Choice], path: Callable[[Examples], Iterable[Scorer]], default: Choice) -> Choice:
    """The choice that is right most often on inner folds; of equals the first, and ``default`` where there can be none.

    ``path(part)`` gives a scorer of every choice, in their order, so that they can share what they have in common.
    """
    folds = inner_folds(examples.targets.numpy(), examples.groups, examples.seed)
    if folds is None:
        return default
    right = np.zeros(len(choices))
    for fold in np.unique(folds):
        held = torch.from_numpy(folds == fold)
        present, part = examples.only(~held).present()
        for i, scorer in enumerate(path(part)):
            winner = present[scorer.scores(examples.embeddings[held]).argmax(-1)]
            right[i] += int((winner == examples.targets[held]).sum())
    return choices[int(right.argmax())]
