r"""Vectors too long for a covariance, as short ones with almost the same inner products: a subsampled randomised Fourier transform.

$y = \sqrt{d/m}\; R F D x$: D flips signs at random, F is the real orthonormal Fourier transform, R keeps m of its d coordinates. F D is an
isometry, so with $m \ge d$ nothing is lost and every spectrum is exact; below, squared lengths and inner products are right on average, and
within about $\sqrt{2/m}$ of the lengths (Ailon & Chazelle 2009; Halko, Martinsson & Tropp 2011). The map is linear: the sketch of a mean is
the mean of the sketches. It is made from a seed alone, so that all machines make the same one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

SEED = 0
# Numbers that are transformed at once: 64 MB of float32, and twice that for the transform.
NUMBERS_AT_ONCE = 2**24


@dataclass(frozen=True)
class Sketch:
    """From ``d`` numbers to ``size`` (at most d)."""

    d: int
    size: int
    signs: Float[Tensor, " d"]
    rows: Int[Tensor, " size"]

    @classmethod
    def of(cls, d: int, size: int) -> Sketch:
        """The one sketch of vectors of this length."""
        return _made(d, min(size, d))

    def __call__(self, x: Float[Tensor, "vector d"]) -> Float[Tensor, "vector size"]:
        at_once = max(1, NUMBERS_AT_ONCE // self.d)
        return torch.cat([self._some(part) for part in x.split(at_once)])

    def _some(self, x: Float[Tensor, "vector d"]) -> Float[Tensor, "vector size"]:
        wave = torch.fft.rfft(x * self.signs.to(x), norm="ortho")
        # The first coefficient, and for even d the last one, are real; the others stand for two coordinates each.
        pairs = (self.d - 1) // 2
        inner = wave[:, 1 : 1 + pairs] * math.sqrt(2)
        ends = [wave[:, :1].real, wave[:, 1 + pairs :].real]
        return torch.cat([*ends, inner.real, inner.imag], 1)[:, self.rows.to(x.device)] * math.sqrt(self.d / self.size)


@lru_cache(maxsize=16)
def _made(d: int, size: int) -> Sketch:
    generator = torch.Generator().manual_seed(SEED)
    signs = torch.randint(0, 2, (d,), generator=generator, dtype=torch.int8) * 2 - 1
    rows = torch.randperm(d, generator=generator)[:size].sort().values
    return Sketch(d, size, signs.to(torch.float32), rows)
