"""Gradient descent on a few numbers over fixed embeddings: the loop of the classifiers that are trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Int
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR


def descend(
    optimiser: Optimizer,
    loss: Callable[[Int[Tensor, " row"]], Tensor],
    clips: int,
    *,
    epochs: int,
    batch: int,
    seed: int,
    cosine: bool = True,
) -> None:
    """Pass ``epochs`` times over all clips in a seeded random order; ``cosine``: the rate falls to zero along a cosine, step by step."""
    generator = torch.Generator().manual_seed(seed)
    steps = epochs * -(-clips // batch)
    schedule = CosineAnnealingLR(optimiser, steps) if cosine else None
    for _ in range(epochs):
        for rows in torch.randperm(clips, generator=generator).split(batch):
            optimiser.zero_grad(set_to_none=True)
            loss(rows).backward()
            optimiser.step()
            if schedule is not None:
                schedule.step()


def learnable(*starts: Tensor) -> Sequence[Tensor]:
    """Copies that ask for a gradient."""
    return [start.detach().clone().requires_grad_() for start in starts]
