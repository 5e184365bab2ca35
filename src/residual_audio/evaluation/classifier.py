"""What a classifier is: made of labelled clips, of class prompts or of both, it gives any embedding a score for every class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from ..data import Dataset
from ..models import Encoder
from ..registry import Registry
from .errors import EvaluationError
from .examples import Examples
from .scorers import Scorer

# What `auto` means: the first of these that the encoder allows.
AUTO = ("prompts", "centroids")


@dataclass(frozen=True)
class Fitted:
    """A classifier that was made of examples. ``present``: the classes that it knows; one without examples never wins."""

    scorer: Scorer
    present: Int[Tensor, " present"]
    classes: int

    def scores(self, embeddings: Float[Tensor, "*clip d"]) -> Float[Tensor, "*clip class"]:
        """Of embeddings of any length."""
        known = self.scorer.scores(F.normalize(embeddings, dim=-1))
        if len(self.present) == self.classes:
            return known
        below = known.amin(-1, keepdim=True) - 1
        return below.repeat(*[1] * (known.dim() - 1), self.classes).index_copy(-1, self.present, known)


@dataclass(frozen=True)
class FoldClassifier:
    """Clip i is scored by ``fitted[fold[i]]``. No clip helped to make its own."""

    fold: Int[Tensor, " clip"]
    fitted: tuple[Fitted, ...]

    def scores(self, embeddings: Float[Tensor, "*unit clip d"], rows: slice = slice(None)) -> Float[Tensor, "*unit clip class"]:
        """``embeddings`` of the clips ``rows``, possibly in several versions; any length."""
        fold = self.fold[rows]
        places = {int(f): torch.nonzero(fold == f)[:, 0] for f in fold.unique()}
        parts = [self.fitted[f].scores(embeddings[..., place, :]) for f, place in places.items()]
        return torch.cat(parts, -2)[..., torch.cat(list(places.values())).argsort(), :]


@dataclass(frozen=True)
class Classifier:
    """One way from embeddings to class scores.

    ``make(examples)`` gives a scorer of the classes that the examples have. ``texts``: whether it reads class prompts: ``none``,
    ``needed`` (so the encoder has to have a text side) or ``optional`` (without them it has a form of its own). ``reads_folds``: it
    learns from labelled clips, so that clips need folds.
    """

    name: str
    help: str
    make: Callable[[Examples], Scorer]
    texts: Literal["none", "optional", "needed"] = "none"
    reads_folds: bool = True
    order: int = 50

    def reads_text(self, encoder: Encoder) -> bool:
        return self.texts != "none" and encoder.has_text

    def fit(self, examples: Examples) -> Fitted:
        if not self.reads_folds:
            return Fitted(self.make(examples), torch.arange(examples.classes), examples.classes)
        present, known = examples.present()
        return Fitted(self.make(known), present, examples.classes)

    def fit_folds(
        self,
        embeddings: Float[Tensor, "clip d"],
        dataset: Dataset,
        texts: Float[Tensor, "class d"] | None = None,
        scale: float = 1.0,
        seed: int = 0,
    ) -> FoldClassifier:
        """One for every fold, made of the clips of the others; a single one of a classifier that learns nothing from clips."""
        whole = Examples.of(embeddings, dataset, texts, scale, seed)
        if not self.reads_folds:
            return FoldClassifier(torch.zeros(len(dataset), dtype=torch.int64), (self.fit(whole),))
        fold, count = fold_places(dataset)
        return FoldClassifier(fold, tuple(self.fit(whole.only(fold != f)) for f in range(count)))


CLASSIFIERS: Registry[Classifier] = Registry("classifier", "residual_audio.evaluation.classifiers", EvaluationError)


def choose_classifier(name: str, encoder: Encoder, template: str | None = None) -> Classifier:
    """A classifier by name, or by ``auto``; refused where the encoder lacks what it needs, or where nobody would read ``template``."""
    if name == "auto":
        name = next(n for n in AUTO if encoder.has_text or CLASSIFIERS[n].texts != "needed")
    chosen = CLASSIFIERS[name]
    if chosen.texts == "needed" and not encoder.has_text:
        others = " or ".join(n for n, c in CLASSIFIERS.items() if c.texts != "needed")
        raise EvaluationError(f"{encoder.name} has no text side, which the classifier {name} needs; use --classifier {others}")
    if template is not None and not chosen.reads_text(encoder):
        readers = ", ".join(n for n, c in CLASSIFIERS.items() if c.reads_text(encoder))
        hint = f"leave it out, or use one that does: {readers}" if readers else f"{encoder.name} has no text side; leave it out"
        raise EvaluationError(f"--template {template!r}: the classifier {name} reads no prompts; {hint}")
    return chosen


def fold_places(dataset: Dataset) -> tuple[Int[Tensor, " clip"], int]:
    """Each clip's fold as 0, 1, 2, …, and how many there are; a single fold leaves nothing to learn from."""
    numbers = torch.tensor([c.fold for c in dataset.clips])
    values, place = numbers.unique(return_inverse=True)
    if len(values) < 2:
        raise EvaluationError(f"{dataset.name}: this classifier needs at least two folds")
    return place, len(values)
