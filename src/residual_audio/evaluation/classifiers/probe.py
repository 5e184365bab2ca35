"""A linear probe: logistic regression on the unit-length embeddings of the other folds, its strength chosen inside them by group."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits
from torch import Tensor

from ..classifier import CLASSIFIERS, Classifier
from ..examples import Examples, inner_folds
from ..scorers import Linear

STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)
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
    present = np.unique(y)
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
        inner = inner_folds(y, range(len(y)) if groups is None else groups, seed)
        if inner is not None:
            strength = max(STRENGTHS, key=lambda c: cross_val_score(model(c), z, y, cv=PredefinedSplit(inner)).mean())
        fitted = model(strength).fit(z, y)
    slope, offset = fitted.coef_, fitted.intercept_
    if len(present) == 2:
        slope, offset = np.concatenate([-slope, slope]) / 2, np.concatenate([-offset, offset]) / 2
    weight[present] = (slope if span is None else slope @ span) / deviation
    bias[present] = offset - weight[present] @ mean
    return torch.from_numpy(weight).to(embeddings), torch.from_numpy(bias).to(embeddings), strength


def make(examples: Examples) -> Linear:
    weight, bias, strength = fit_probe(examples.embeddings, examples.targets, examples.classes, examples.seed, examples.groups)
    return Linear(weight, bias, trained=weight.numel() + bias.numel(), chosen={"C": strength})


CLASSIFIERS.add(Classifier("probe", "logistic regression on the other folds' clips", make, order=30))
