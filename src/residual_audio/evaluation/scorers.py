"""What classifiers leave: two forms of scores, both of unit embeddings, both differentiable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


@runtime_checkable
class Scorer(Protocol):
    """``trained``: how many numbers an optimiser has changed; ``chosen``: what was chosen inside the training clips."""

    @property
    def trained(self) -> int: ...

    @property
    def chosen(self) -> Mapping[str, float]: ...

    def scores(self, unit: Float[Tensor, "*clip d"]) -> Float[Tensor, "*clip class"]: ...


@dataclass(frozen=True)
class Linear:
    r"""$W \hat e + b$, where $\hat e = e$, or $(e - m)$ at unit length where there is a centre m."""

    weight: Float[Tensor, "class d"]
    bias: Float[Tensor, " class"]
    centre: Float[Tensor, " d"] | None = None
    trained: int = 0
    chosen: Mapping[str, float] = field(default_factory=dict)

    def scores(self, unit: Float[Tensor, "*clip d"]) -> Float[Tensor, "*clip class"]:
        seen = unit if self.centre is None else F.normalize(unit - self.centre, dim=-1)
        return seen @ self.weight.T + self.bias


@dataclass(frozen=True)
class Cache:
    r"""$T e + \sum_i \exp(-\beta(1 - e \cdot k_i))\, v_i$: a linear part, and keys of training clips that vote by how near they are."""

    base: Float[Tensor, "class d"]
    keys: Float[Tensor, "key d"]
    values: Float[Tensor, "key class"]
    sharpness: float
    trained: int = 0
    chosen: Mapping[str, float] = field(default_factory=dict)

    def scores(self, unit: Float[Tensor, "*clip d"]) -> Float[Tensor, "*clip class"]:
        return unit @ self.base.T + nearness(unit, self.keys, self.sharpness) @ self.values


def nearness(unit: Float[Tensor, "*clip d"], keys: Float[Tensor, "key d"], sharpness: float) -> Float[Tensor, "*clip key"]:
    r"""$\exp(-\beta(1 - e \cdot k))$: of unit vectors the Gaussian kernel."""
    return torch.exp(-sharpness * (1 - unit @ keys.T))
