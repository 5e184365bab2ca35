"""The Treff adapter (Liang et al., Interspeech 2023): votes of training clips as in `tip`, both sides seen through a learned matrix M.

Scores s e·t_c + α Σᵢ exp(−β (1 − Me·Mfᵢ)) yᵢ_c, from M = I and α = 1, with β = 5.5. Fixed as by the authors: AdamW, rate 1e-4, ε 1e-4,
15 steps on all clips, a cosine schedule; α is learned too, as in their code. Without texts, the votes alone.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ..classifier import CLASSIFIERS, Classifier
from ..descent import descend, learnable
from ..examples import Examples
from ..scorers import Cache

SHARPNESS, RATE, EPSILON, STEPS = 5.5, 1e-4, 1e-4, 15


def seen_through(examples: Examples, matrix: torch.Tensor, alpha: torch.Tensor) -> Cache:
    """Me·Mf = e·MᵀMf: the matrix goes into the keys."""
    keys = examples.embeddings @ matrix.T @ matrix
    return Cache(examples.zero_shot, keys, alpha * examples.one_hot, SHARPNESS)


def make(examples: Examples) -> Cache:
    dims = examples.embeddings.shape[1]
    matrix, alpha = learnable(torch.eye(dims).to(examples.embeddings), torch.ones(()).to(examples.embeddings))

    def loss(rows: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(seen_through(examples, matrix, alpha).scores(examples.embeddings[rows]), examples.targets[rows])

    optimiser = torch.optim.AdamW([matrix, alpha], RATE, eps=EPSILON)
    descend(optimiser, loss, len(examples), epochs=STEPS, batch=len(examples), seed=examples.seed)
    made = seen_through(examples, matrix.detach(), alpha.detach())
    return Cache(made.base, made.keys, made.values, SHARPNESS, trained=matrix.numel() + 1)


CLASSIFIERS.add(
    Classifier("treff", "prompts and votes through a learned matrix (Treff adapter); without texts the votes", make, "optional", order=35)
)
