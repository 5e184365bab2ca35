"""PALM (Hanif et al., EMNLP 2024): each class text is mixed with a learned vector, in the space of embeddings.

Scores s e·t′_c with t′_c = (1 − σ(λ_c)) t_c + σ(λ_c) z_c at unit length. Fixed as by the authors: z from a normal distribution of
deviation 0.02, λ uniform in [0, 1], SGD, rate 0.05, momentum 0.9, 50 epochs in batches of 16.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from ..classifier import CLASSIFIERS, Classifier
from ..descent import descend, learnable
from ..examples import Examples
from ..scorers import Linear

DEVIATION, RATE, MOMENTUM, EPOCHS, BATCH = 0.02, 0.05, 0.9, 50, 16


def mixed(texts: Float[Tensor, "class d"], context: Float[Tensor, "class d"], mix: Float[Tensor, " class"]) -> Float[Tensor, "class d"]:
    share = torch.sigmoid(mix)[:, None]
    return F.normalize((1 - share) * texts + share * context, dim=-1)


def make(examples: Examples) -> Linear:
    texts = examples.texts_for("palm")
    generator = torch.Generator().manual_seed(examples.seed)
    start = DEVIATION * torch.randn(texts.shape, generator=generator), torch.rand(len(texts), generator=generator)
    context, mix = learnable(*(part.to(texts) for part in start))

    def loss(rows: torch.Tensor) -> torch.Tensor:
        scores = examples.scale * examples.embeddings[rows] @ mixed(texts, context, mix).T
        return F.cross_entropy(scores, examples.targets[rows])

    optimiser = torch.optim.SGD([context, mix], RATE, MOMENTUM)
    descend(optimiser, loss, len(examples), epochs=EPOCHS, batch=BATCH, seed=examples.seed, cosine=False)
    learned = examples.scale * mixed(texts, context.detach(), mix.detach())
    return Linear(learned, learned.new_zeros(examples.classes), trained=context.numel() + mix.numel())


CLASSIFIERS.add(Classifier("palm", "each class text mixed with a learned vector (PALM)", make, "needed", order=38))
