r"""The correlation route: words for one principal component of a unit, through the clips' embeddings.

A component's scores $t_i$ weight the clips' centred embeddings, $v = \sum_i t_i (e_i - \bar e)$: the direction in which the *whole* model
moves when the component does. OMP then finds words for v. Nothing is held, and nothing says that the unit itself causes the move.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .textspan import Choice


def score_directions(
    scores: Float[Tensor, "signal clip"], embeddings: Float[Tensor, "clip d"], counts: Float[Tensor, "signal clip"] | None = None
) -> Float[Tensor, "signal d"]:
    """v of each signal: covariance of scores and embeddings, times the number of clips. ``counts``: how often a clip was drawn."""
    if counts is None:
        return (scores - scores.mean(1, keepdim=True)) @ embeddings
    mean = (counts * scores).sum(1, keepdim=True) / counts.sum(1, keepdim=True)
    return (counts * (scores - mean)) @ embeddings


def matching_pursuits(
    signals: Float[Tensor, "signal d"], texts: Float[Tensor, "text d"], count: int
) -> tuple[Int[Tensor, "signal word"], Float[Tensor, "signal word"]]:
    """Orthogonal matching pursuit of each signal on its own, all at once: words, and the share of its square explained so far.

    Where no word can explain more, the word is −1.
    """
    total = signals.square().sum(1)
    left, rows = signals, torch.arange(len(signals))
    basis = signals.new_zeros(len(signals), 0, signals.shape[1])
    words: list[Tensor] = []
    explained: list[Tensor] = []
    for _ in range(min(count, *texts.shape)):
        strength = (left @ texts.T).abs()
        for before in words:
            strength[rows, before] = -1.0
        best = strength.argmax(1)
        fresh = texts[best]
        for _ in range(2):  # twice, against rounding
            fresh = fresh - torch.einsum("sb,sbd->sd", torch.einsum("sd,sbd->sb", fresh, basis), basis)
        length = fresh.norm(dim=1, keepdim=True)
        over = (length[:, 0] <= 1e-9) | (left.square().sum(1) <= 1e-18 * total)
        fresh = torch.where(over[:, None], 0.0, fresh / length)
        left = left - (left * fresh).sum(1, keepdim=True) * fresh
        basis = torch.cat([basis, fresh[:, None]], 1)
        words.append(torch.where(over, -1, best))
        explained.append(1 - left.square().sum(1) / total)
    return torch.stack(words, 1), torch.stack(explained, 1)


def correlated_words(
    scores: Float[Tensor, " clip"], embeddings: Float[Tensor, "clip d"], texts: Float[Tensor, "text d"], count: int
) -> Choice:
    """OMP on the direction of one component's scores; ``explained`` is of that direction's square, not of the unit's variance."""
    scores, embeddings, texts = (x.to(torch.float64) for x in (scores, embeddings, texts))
    words, explained = matching_pursuits(score_directions(scores[None], embeddings), texts, count)
    return Choice(words[0][words[0] >= 0], explained[0][words[0] >= 0])
