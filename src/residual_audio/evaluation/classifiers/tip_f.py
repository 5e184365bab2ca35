"""Tip-Adapter-F: Tip-Adapter whose keys are learned, from the training clips on.

Fixed as by the authors: AdamW, rate 1e-3, ε 1e-4, 20 epochs in batches of 256, a cosine schedule. β and α are those of `tip`; the authors
choose the epoch by test accuracy and β and α anew afterwards, which ours does not.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F

from ..classifier import CLASSIFIERS, Classifier
from ..descent import descend, learnable
from ..examples import Examples
from ..scorers import Cache
from .tip import chosen_point, votes

RATE, EPSILON, EPOCHS, BATCH = 1e-3, 1e-4, 20, 256


def make(examples: Examples) -> Cache:
    start = next(votes(examples, [chosen_point(examples)]))
    (keys,) = learnable(start.keys)
    live = replace(start, keys=keys)

    def loss(rows: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(live.scores(examples.embeddings[rows]), examples.targets[rows])

    descend(torch.optim.AdamW([keys], RATE, eps=EPSILON), loss, len(examples), epochs=EPOCHS, batch=BATCH, seed=examples.seed)
    return replace(start, keys=keys.detach(), trained=keys.numel())


CLASSIFIERS.add(Classifier("tip-f", "Tip-Adapter with learned keys", make, "optional", order=34))
