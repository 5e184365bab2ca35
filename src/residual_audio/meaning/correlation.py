r"""The correlation route: words for one principal component of a unit, through the clips' embeddings.

A component's scores $t_i$ weight the clips' centred embeddings, $v = \sum_i t_i (e_i - \bar e)$: the direction in which the *whole* model
moves when the component does. OMP then finds words for v. Nothing is held, and nothing says that the unit itself causes the move.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from .somp import orthogonal
from .textspan import Choice, Choices


def score_directions(
    scores: Float[Tensor, "signal clip"], embeddings: Float[Tensor, "clip d"], counts: Float[Tensor, "signal clip"] | None = None
) -> Float[Tensor, "signal d"]:
    """v of each signal: covariance of scores and embeddings, times the number of clips. ``counts``: how often a clip was drawn."""
    if counts is None:
        return (scores - scores.mean(1, keepdim=True)) @ embeddings
    mean = (counts * scores).sum(1, keepdim=True) / counts.sum(1, keepdim=True)
    return (counts * (scores - mean)) @ embeddings


def matching_pursuits(products: Float[Tensor, "signal text"], total: Float[Tensor, " signal"], gram: Tensor, count: int) -> Choices:
    """Orthogonal matching pursuit of each signal on its own, all at once, from its inner products with the words and its square ``total``.

    ``gram``: inner products of the words. ``explained``: the share of a signal's square.
    """
    signals, rows = len(products), torch.arange(len(products))
    left, free = products, torch.ones_like(products, dtype=torch.bool)
    chosen: list[Tensor] = []
    explained: list[Tensor] = []
    before: list[Tensor] = []
    done, over = total.new_zeros(signals), torch.zeros(signals, dtype=torch.bool)
    for _ in range(min(count, *gram.shape)):
        best = torch.where(free, left.abs(), -1.0).argmax(1)
        onto, length = orthogonal(gram, best, before)
        over = over | (length <= 1e-12) | (total - done <= 1e-12 * total)
        inverse = torch.where(over, 0.0, length.rsqrt())
        onto, along = onto * inverse[:, None], left[rows, best] * inverse
        left = left - along[:, None] * onto
        done = done + along.square()
        free[rows, best] = False
        before.append(onto)
        chosen.append(torch.where(over, -1, best))
        explained.append(done / total)
    return Choices(torch.stack(chosen, 1), torch.stack(explained, 1))


def correlated_words(
    scores: Float[Tensor, " clip"], embeddings: Float[Tensor, "clip d"], texts: Float[Tensor, "text d"], count: int
) -> Choice:
    """OMP on the direction of one component's scores; ``explained`` is of that direction's square, not of the unit's variance."""
    scores, embeddings, texts = (x.to(torch.float64) for x in (scores, embeddings, texts))
    direction = score_directions(scores[None], embeddings)
    return matching_pursuits(direction @ texts.T, direction.square().sum(1), texts @ texts.T, count).one(0)
