"""A linear layer on frozen embeddings as an earlier report trained it: five epochs of Adam at a rate of 0.01, and nothing is chosen.

Scores W e + b, C × D + C numbers: 25,650 for 50 classes of 512 dimensions. Not said there, so ours: batches of 64, a start at zero.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ..classifier import CLASSIFIERS, Classifier
from ..descent import descend, learnable
from ..examples import Examples
from ..scorers import Linear
from .probe import NEVER

RATE, EPOCHS, BATCH = 0.01, 5, 64


def make(examples: Examples) -> Linear:
    start = examples.embeddings.new_zeros(examples.classes, examples.embeddings.shape[1])
    weight, bias = learnable(start, start[:, 0])

    def loss(rows: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(examples.embeddings[rows] @ weight.T + bias, examples.targets[rows])

    optimiser = torch.optim.Adam([weight, bias], RATE)
    descend(optimiser, loss, len(examples), epochs=EPOCHS, batch=BATCH, seed=examples.seed, cosine=False)
    seen = examples.one_hot.sum(0) > 0
    return Linear(weight.detach(), torch.where(seen, bias.detach(), NEVER), trained=weight.numel() + bias.numel())


CLASSIFIERS.add(Classifier("linear", "a linear layer, five epochs of Adam, as an earlier report trained it", make, order=31))
