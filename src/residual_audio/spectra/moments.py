r"""Streaming moments (n, Σx, Σxxᵀ) in float64: exact PCA in constant memory, mergeable across shards and machines.

Invariant: moments of a union are the sum of moments, in any order and any batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Moments:
    """Of several units at once: ``count [unit]``, ``total [unit, d]``, ``second [unit, d, d]``."""

    count: Int[Tensor, " unit"]
    total: Float[Tensor, "unit d"]
    second: Float[Tensor, "unit d d"]

    @classmethod
    def empty(cls, units: int, d: int) -> Moments:
        return cls(
            torch.zeros(units, dtype=torch.int64), torch.zeros(units, d, dtype=torch.float64), torch.zeros(units, d, d, dtype=torch.float64)
        )

    @classmethod
    def of(cls, rows: Float[Tensor, "row unit d"]) -> Moments:
        """Moments of one batch; the products are taken in float64, so nothing is lost to rounding in the input's type."""
        x = rows.transpose(0, 1).to(torch.float64, memory_format=torch.contiguous_format)
        count = torch.full((rows.shape[1],), rows.shape[0], dtype=torch.int64)
        return cls(count, x.sum(1).cpu(), torch.bmm(x.mT, x).cpu())

    @classmethod
    def joined(cls, parts: list[Moments]) -> Moments:
        """Several groups of units side by side."""
        return cls(torch.cat([p.count for p in parts]), torch.cat([p.total for p in parts]), torch.cat([p.second for p in parts]))

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.count + other.count, self.total + other.total, self.second + other.second)

    @property
    def mean(self) -> Float[Tensor, "unit d"]:
        return self.total / self.count[:, None]

    @property
    def covariance(self) -> Float[Tensor, "unit d d"]:
        """Unbiased: (Σxxᵀ − n·x̄x̄ᵀ) / (n − 1)."""
        n = self.count[:, None, None].to(torch.float64)
        centred = self.second - n * self.mean[:, :, None] * self.mean[:, None, :]
        return centred / (n - 1).clamp_min(1)

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        """For storage."""
        return {f"{prefix}.count": self.count, f"{prefix}.total": self.total, f"{prefix}.second": self.second}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], prefix: str) -> Moments:
        return cls(tensors[f"{prefix}.count"], tensors[f"{prefix}.total"], tensors[f"{prefix}.second"])
