"""A linear probe: logistic regression on the unit-length embeddings of the other folds, its strength chosen inside them by group."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits
from torch import Tensor

from ...data import Dataset, grouped_folds
from ..classifier import CLASSIFIERS, Classifier, FoldClassifier, fold_places

STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)
INNER_FOLDS = 3
# The bias of a class that training never saw: below any real score, and finite so that margins stay numbers.
NEVER = -1e4


def fit_probe(
    embeddings: Float[Tensor, "clip d"],
    targets: Int[Tensor, " clip"],
    classes: int,
    seed: int = 0,
    groups: Sequence[Hashable] | None = None,
) -> tuple[Float[Tensor, "class d"], Float[Tensor, " class"], float]:
    """Weights and biases on the embeddings as they are (standardisation is folded in), and the chosen strength C.

    C is chosen in three inner folds that keep ``groups`` together (without them, every clip stands for itself). A class without training
    clips never wins. Where a class has too few clips for inner folds, or a fold would leave one class to learn from, C = 1.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import PredefinedSplit, cross_val_score

    x, y = embeddings.double().cpu().numpy(), targets.cpu().numpy()
    mean, deviation = x.mean(0), x.std(0)
    deviation[deviation == 0] = 1.0
    z = (x - mean) / deviation
    present, counts = np.unique(y, return_counts=True)
    weight, bias = np.zeros((classes, x.shape[1])), np.full(classes, NEVER)
    if len(present) == 1:
        bias[present] = 0.0
        return torch.from_numpy(weight).to(embeddings), torch.from_numpy(bias).to(embeddings), float("nan")

    def model(strength: float) -> LogisticRegression:
        return LogisticRegression(C=strength, max_iter=2000)

    # With more dimensions than clips the solution lies in their span: the same regression, in as many coordinates as there are clips.
    span = np.linalg.svd(z, full_matrices=False)[2] if z.shape[1] > len(z) else None
    z = z if span is None else z @ span.T
    strength = 1.0
    # The solver's vectors are short: threads would only wait for each other.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        inner = np.array(grouped_folds(y.tolist(), range(len(y)) if groups is None else groups, INNER_FOLDS, seed))
        learnable = all(len(np.unique(y[inner != fold])) > 1 for fold in np.unique(inner))
        if counts.min() >= INNER_FOLDS and len(np.unique(inner)) > 1 and learnable:
            strength = max(STRENGTHS, key=lambda c: cross_val_score(model(c), z, y, cv=PredefinedSplit(inner)).mean())
        fitted = model(strength).fit(z, y)
    slope, offset = fitted.coef_, fitted.intercept_
    if len(present) == 2:
        slope, offset = np.concatenate([-slope, slope]) / 2, np.concatenate([-offset, offset]) / 2
    weight[present] = (slope if span is None else slope @ span) / deviation
    bias[present] = offset - weight[present] @ mean
    return torch.from_numpy(weight).to(embeddings), torch.from_numpy(bias).to(embeddings), strength


def fit(
    embeddings: Float[Tensor, "clip d"], dataset: Dataset, directions: Float[Tensor, "class d"] | None = None, seed: int = 0
) -> FoldClassifier:
    fold, count = fold_places(dataset)
    unit, targets = F.normalize(embeddings, dim=-1), torch.from_numpy(dataset.targets)
    groups = np.array(dataset.groups)
    fitted = [
        fit_probe(unit[fold != f], targets[fold != f], len(dataset.labels), seed, groups[(fold != f).numpy()].tolist())
        for f in range(count)
    ]
    weight = torch.stack([w for w, _, _ in fitted])
    return FoldClassifier(fold, torch.zeros_like(weight[:, 0]), weight, torch.stack([b for _, b, _ in fitted]))


CLASSIFIERS.add(Classifier("probe", "logistic regression on the other folds' clips", fit, order=30))
