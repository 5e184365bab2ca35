r"""TextSpan (Gandelsman, Efros & Steinhardt 2024): the words whose directions explain most of what a unit varies in, one after the other.

Words are seen through the unit's own span. Then, again and again: take the word j with the largest $\sum_i \langle x_i, r_j \rangle^2$, and
project its direction out of the rows *and* out of all other words.

Invariant: what is explained is the rows' part inside the span of the chosen words. Rows count only through their second moments, so a
square root of those (:func:`.span.square_root`) may stand for all clips.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Choice(NamedTuple):
    """``words`` in the order of choice; ``explained``: the share of the rows' squares explained by the words so far."""

    words: Int[Tensor, " word"]
    explained: Float[Tensor, " word"]

    @classmethod
    def of(cls, words: list[int], explained: list[float]) -> Choice:
        return cls(torch.tensor(words, dtype=torch.int64), torch.tensor(explained, dtype=torch.float64))


def textspan(rows: Float[Tensor, "row d"], texts: Float[Tensor, "text d"], count: int) -> Choice:
    """``rows``: a unit's centred shares. Fewer than ``count`` words if no more can explain anything."""
    rows, texts = rows.to(torch.float64), texts.to(torch.float64)
    _, singular, axes = torch.linalg.svd(rows, full_matrices=False)
    axes = axes[singular > 1e-9 * singular[:1]]
    return textspan_inside(rows @ axes.T, texts @ axes.T, count, float(rows.square().sum()))


def textspan_inside(rows: Float[Tensor, "row axis"], words: Float[Tensor, "text axis"], count: int, total: float) -> Choice:
    """The same with rows and words in coordinates of the unit's span; ``total`` is what explained shares are of."""
    chosen: list[int] = []
    explained: list[float] = []
    left, products, done = words, words @ rows.T, 0.0
    smallest = 1e-9 * words.norm(dim=1)
    for _ in range(min(count, *words.shape)):
        strength = products.square().sum(1)
        strength[chosen] = -1.0
        best = int(strength.argmax())
        length = left[best].norm()
        if length <= smallest[best] or strength[best] <= 1e-18 * total:
            break
        direction, along = left[best] / length, products[best] / length
        inner = left @ direction
        left, products = left - torch.outer(inner, direction), products - torch.outer(inner, along)
        done += float(along.square().sum())
        chosen.append(best)
        explained.append(done / total)
    return Choice.of(chosen, explained)
