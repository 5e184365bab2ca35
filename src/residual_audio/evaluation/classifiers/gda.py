"""Gaussian discriminant analysis with one covariance for all classes, beside the prompts (Wang et al., ICLR 2024); closed form.

Scores s e·t_c + α (e·w_c + b_c), with w_c = Σ⁻¹ μ_c, b_c = −½ μ_cᵀ Σ⁻¹ μ_c + log 1/C, and the authors' estimate
Σ⁻¹ = D pinv((n − 1) Σ + tr(Σ) I). Without texts, the second part alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from ..classifier import CLASSIFIERS, Classifier
from ..examples import Examples, choose
from ..scorers import Linear

# What the authors try; a tenth where a class has too few clips to choose by, as in their code.
WEIGHTS = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)
MIDDLE = 0.1


def gaussians(examples: Examples) -> tuple[Float[Tensor, "class d"], Float[Tensor, " class"]]:
    """Weights and biases of the discriminant."""
    x, members = examples.embeddings.double(), examples.one_hot.double()
    means = members.T @ x / members.sum(0)[:, None]
    about = x - means[examples.targets]
    clips, dims = x.shape
    scatter = about.T @ about  # (n − 1) Σ
    # A single clip per class has no scatter: then all directions count alike.
    trace = float(scatter.trace()) / max(clips - 1, 1) or 1.0
    shrunk = scatter + trace * torch.eye(dims, dtype=x.dtype)
    weight = means @ (dims * torch.linalg.pinv(shrunk, hermitian=True))
    bias = -(weight * means).sum(1) / 2 - math.log(examples.classes)
    return weight.to(examples.embeddings), bias.to(examples.embeddings)


def mixed(examples: Examples, weights: Sequence[float]) -> Iterator[Linear]:
    """Prompts and discriminant, for every weight α."""
    slope, offset = gaussians(examples)
    for alpha in weights:
        yield Linear(examples.zero_shot + alpha * slope, alpha * offset, chosen={"alpha": alpha})


def make(examples: Examples) -> Linear:
    if examples.texts is None:
        return Linear(*gaussians(examples))
    alpha = choose(examples, WEIGHTS, lambda part: mixed(part, WEIGHTS), MIDDLE)
    return next(mixed(examples, [alpha]))


CLASSIFIERS.add(
    Classifier("gda", "prompts and Gaussian discriminant analysis, closed form; without texts the latter alone", make, "optional", order=31)
)
