"""A probe that starts at the texts and is pulled back to them (CLAP: Silva-Rodríguez et al., CVPR 2024), without a validation set.

Scores s e·w_c; w minimises cross-entropy + 1/C Σ_c λ_c |w_c − t_c|² from w = t, where λ_c is the mean zero-shot probability of class c
over its own clips: texts that do well are kept. The sum is convex, and L-BFGS goes to its minimum. The authors also bring w to unit
length in the scores and stop after 300 epochs of SGD; that has no single minimum, and depends on the rate.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from ..classifier import CLASSIFIERS, Classifier
from ..descent import learnable
from ..examples import Examples
from ..scorers import Linear

STEPS = 500


def pulls(examples: Examples, texts: Float[Tensor, "class d"]) -> Float[Tensor, " class"]:
    """λ: how sure the zero-shot classifier is of each class, where it is right to be."""
    own = (examples.scale * examples.embeddings @ texts.T).softmax(-1) * examples.one_hot
    return own.sum(0) / examples.one_hot.sum(0)


def make(examples: Examples) -> Linear:
    texts = examples.texts_for("zs-probe").double()
    x, pull = examples.embeddings.double(), pulls(examples, examples.texts_for("zs-probe")).double()
    (weight,) = learnable(texts)
    optimiser = torch.optim.LBFGS(
        [weight], max_iter=STEPS, line_search_fn="strong_wolfe", tolerance_grad=1e-6, tolerance_change=1e-10
    )  # fmt: skip

    def loss() -> Tensor:
        optimiser.zero_grad()
        scores = examples.scale * x @ weight.T
        total = F.cross_entropy(scores, examples.targets) + (pull * (weight - texts).square().sum(-1)).mean()
        total.backward()
        return total

    optimiser.step(loss)
    slope = (examples.scale * weight.detach()).to(examples.embeddings)
    return Linear(slope, slope.new_zeros(examples.classes), trained=weight.numel())


CLASSIFIERS.add(
    Classifier("zs-probe", "a linear probe that starts at the texts, class by class pulled back to them", make, "needed", order=36)
)
