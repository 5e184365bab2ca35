"""LP++ (Huang et al., CVPR 2024): a linear probe whose class weights are blended with the texts by learned multipliers.

Scores e·w_c + b_c + α_c e·t_c. Nothing is left to tune but the number of steps: w starts at the sums of each class's clips, every α at
250 times the mean cosine of clips with their own text, and the steps come from bounds of the loss' curvature: 4n / λ_max(FᵀF) for w and
b (with momentum 0.9), and n / (4 max_c Σᵢ (fᵢ·t_c)²) for α, which moves at every tenth step. The authors take the best of 300 steps by
a validation set; here inner folds choose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from ..classifier import CLASSIFIERS, Classifier
from ..examples import Examples, choose
from ..scorers import Linear

MOMENTUM, EVERY, START = 0.9, 10, 250.0
STEPS = (10, 20, 50, 100, 200, 300)


def gradient(scores: Float[Tensor, "clip class"], members: Float[Tensor, "clip class"]) -> Float[Tensor, "clip class"]:
    """Of the mean cross-entropy, by the scores."""
    return (scores.softmax(-1) - members) / len(scores)


def blends(examples: Examples, steps: Sequence[int]) -> Iterator[Linear]:
    """What has been learned after each of a rising number of steps."""
    x, texts, members = examples.embeddings, examples.texts_for("lp++"), examples.one_hot
    cosines = x @ texts.T
    rate = 4 * len(x) / torch.linalg.matrix_norm(x, 2) ** 2
    rate_alpha = len(x) / (4 * cosines.square().sum(0).max())
    weight, bias = members.T @ x, x.new_zeros(examples.classes)
    alpha = START * ((members * cosines).sum(0) / members.sum(0)).mean().expand(examples.classes)
    moved, shifted = torch.zeros_like(weight), torch.zeros_like(bias)
    for step in range(1, max(steps) + 1):
        slope = gradient(x @ weight.T + bias + alpha * cosines, members)
        moved, shifted = MOMENTUM * moved + slope.T @ x, MOMENTUM * shifted + slope.sum(0)
        weight, bias = weight - rate * moved, bias - rate * shifted
        if step % EVERY == 0:
            alpha = alpha - rate_alpha * (slope * cosines).sum(0)
        if step in steps:
            trained = weight.numel() + bias.numel() + alpha.numel()
            yield Linear(weight + alpha[:, None] * texts, bias, trained=trained, chosen={"steps": step})


def make(examples: Examples) -> Linear:
    steps = choose(examples, STEPS, lambda part: blends(part, STEPS), STEPS[-1])
    return next(blends(examples, [steps]))


CLASSIFIERS.add(Classifier("lp++", "a linear probe blended with the texts by learned multipliers (LP++)", make, "needed", order=37))
