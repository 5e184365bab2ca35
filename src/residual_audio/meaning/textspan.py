r"""TextSpan (Gandelsman, Efros & Steinhardt 2024): the words whose directions explain most of what a unit varies in, one after the other.

Words are seen through the unit's own span. Then, again and again: take the word j with the largest $\sum_i \langle x_i, r_j \rangle^2$, and
project its direction out of the rows *and* out of all other words.

Invariant: what is explained is the rows' part inside the span of the chosen words. Rows count only through their second moments, which on
principal axes are one number per axis: no clip is needed. With $u_1, u_2, …$ the directions chosen so far, $c_l(j) = w_j \cdot u_l$ and
$C$ the second moments, the strength $w_j^T (I - UU^T) C (I - UU^T) w_j$ is updated from inner products with the words as they were.
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


class Choices(NamedTuple):
    """The same for several signals (units, resamples, permutations) at once; −1 where no more words can explain anything."""

    words: Int[Tensor, "signal word"]
    explained: Float[Tensor, "signal word"]

    def one(self, signal: int) -> Choice:
        """Those of one signal."""
        chosen = self.words[signal] >= 0
        return Choice(self.words[signal][chosen], self.explained[signal][chosen])


def textspan(rows: Float[Tensor, "row d"], texts: Float[Tensor, "text d"], count: int) -> Choice:
    """``rows``: a unit's centred shares. Fewer than ``count`` words if no more can explain anything."""
    rows, texts = rows.to(torch.float64), texts.to(torch.float64)
    _, singular, axes = torch.linalg.svd(rows, full_matrices=False)
    inside = singular > 1e-9 * singular[:1]
    return textspans((texts @ axes[inside].T)[None], singular[inside].square(), count).one(0)


def textspans(words: Float[Tensor, "signal text axis"], second: Float[Tensor, " axis"], count: int, total: float | None = None) -> Choices:
    """All signals at once, each with its words in coordinates of the principal axes; ``second``: the rows' sum of squares along those.

    ``total`` is what explained shares are of; where it is not given, the sum of ``second``.
    """
    signals, rows = len(words), torch.arange(len(words))
    total = float(second.sum()) if total is None else total
    strength = words.square() @ second
    smallest = 1e-12 * words.square().sum(-1)
    directions: list[Tensor] = []
    along: list[Tensor] = []
    chosen: list[Tensor] = []
    explained: list[Tensor] = []
    done, over = words.new_zeros(signals), torch.zeros(signals, dtype=torch.bool)
    for _ in range(min(count, *words.shape[1:])):
        best = strength.argmax(1)
        left = words[rows, best]
        for _ in range(2):  # twice, against rounding
            for u in directions:
                left = left - (left * u).sum(1, keepdim=True) * u
        square = left.square().sum(1)
        over = over | (square <= smallest[rows, best]) | (strength[rows, best] <= 1e-12 * total)
        u = torch.where(over[:, None], 0.0, left / square.sqrt()[:, None])
        stretched = second * u
        c, e = torch.bmm(words, torch.stack([u, stretched], -1)).unbind(-1)
        for before, c_before in zip(directions, along, strict=True):
            e = e - c_before * (before * stretched).sum(1, keepdim=True)
        explains = (u * stretched).sum(1)
        strength = strength - 2 * c * e + c.square() * explains[:, None]
        strength[rows, best] = -torch.inf
        done = done + explains
        directions.append(u)
        along.append(c)
        chosen.append(torch.where(over, -1, best))
        explained.append(done / total)
    return Choices(torch.stack(chosen, 1), torch.stack(explained, 1))
