r"""Simultaneous orthogonal matching pursuit (Tropp, Gilbert & Strauss 2006): one sparse set of words for all rows at once.

Again and again: take the word with the largest $\sum_i |\langle \rho_i, t_j \rangle|$ of the residuals $\rho_i$, then fit all rows anew by
least squares on the words chosen so far. Words stay whole, also outside the unit's span. With one row it is ordinary OMP.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .textspan import Choice, Choices

NUMBERS_AT_ONCE = 2**22  # 32 MB of float64


def somp(rows: Float[Tensor, "row d"], texts: Float[Tensor, "text d"], count: int) -> Choice:
    """``rows``: a unit's centred shares. ``texts`` of unit length. Fewer than ``count`` words if no more can explain anything."""
    rows, texts = rows.to(torch.float64), texts.to(torch.float64)
    _, _, axes = torch.linalg.svd(rows, full_matrices=False)
    return pursuits((texts @ axes.T)[None], rows @ axes.T, texts @ texts.T, count).one(0)


def pursuits(
    words: Float[Tensor, "signal text axis"],
    scores: Float[Tensor, "row axis"],
    gram: Float[Tensor, "text text"],
    count: int,
    total: float | None = None,
) -> Choices:
    r"""All signals at once: the same rows, whose inner products with a signal's words are ``scores @ words.T``; scores on principal axes.

    ``gram``: inner products of whole words, the same for all signals. With q the part of a chosen word that is orthogonal to those before
    it, $\rho \leftarrow \rho - (\rho \cdot q) q$, and $\rho \cdot q = \rho \cdot t / |t - Pt|$. So what is left of a row in word j is
    again an inner product of its scores, with $w_j - (q \cdot t_j) w_{best} / |t - Pt|$, and the residuals are never needed.
    """
    signals, rows = len(words), torch.arange(len(words))
    second = scores.square().sum(0)
    total = float(scores.square().sum()) if total is None else total
    left, free = words.clone(), torch.ones(words.shape[:2], dtype=torch.bool)
    chosen: list[Tensor] = []
    explained: list[Tensor] = []
    before: list[Tensor] = []
    done, over = words.new_zeros(signals), torch.zeros(signals, dtype=torch.bool)
    for _ in range(min(count, *gram.shape)):
        squares = left.square() @ second
        best = strongest(left, scores, squares, free)
        onto, length = orthogonal(gram, best, before)
        over = over | (length <= 1e-12) | (squares[rows, best] <= 1e-18 * total)
        inverse = torch.where(over, 0.0, length.rsqrt())
        onto, towards = onto * inverse[:, None], left[rows, best] * inverse[:, None]
        left.baddbmm_(onto[:, :, None], towards[:, None, :], alpha=-1)
        done = done + squares[rows, best] * inverse.square()
        free[rows, best] = False
        before.append(onto)
        chosen.append(torch.where(over, -1, best))
        explained.append(done / total)
    return Choices(torch.stack(chosen, 1), torch.stack(explained, 1))


def orthogonal(
    gram: Float[Tensor, "text text"], best: Int[Tensor, " signal"], before: list[Float[Tensor, "signal text"]]
) -> tuple[Float[Tensor, "signal text"], Float[Tensor, " signal"]]:
    """Inner products of all words with the part of ``best`` that is orthogonal to the words before, and that part's square.

    ``before``: the same, at unit length, of the words before; so only the words' inner products are needed, never the words.
    """
    rows = torch.arange(len(best))
    onto = gram[best]
    for earlier in before:
        onto = onto - earlier[rows, best, None] * earlier
    return onto, onto[rows, best]


def strongest(
    left: Float[Tensor, "signal text axis"],
    scores: Float[Tensor, "row axis"],
    squares: Float[Tensor, "signal text"],
    free: Bool[Tensor, "signal text"],
) -> Int[Tensor, " signal"]:
    r"""The free word with the largest $\sum_i |s_i \cdot w_j|$ of each signal, exactly, without looking at most words.

    $\sum_i |a_i| \le \sqrt{n \sum_i a_i^2}$, and the squares are known from second moments: the word with the largest square is measured
    first, and only those words are measured whose bound is above it.
    """
    bound = torch.where(free, (len(scores) * squares).sqrt(), -1.0)
    rows, first = torch.arange(len(left)), bound.argmax(1)
    reached = (left[rows, first] @ scores.T).abs().sum(1)
    signal, word = (bound >= (1 - 1e-9) * reached[:, None]).nonzero(as_tuple=True)
    strength = torch.full_like(bound, -torch.inf)
    at_once = max(1, NUMBERS_AT_ONCE // len(scores))
    for start in range(0, len(signal), at_once):
        part = signal[start : start + at_once], word[start : start + at_once]
        strength[part] = (left[part] @ scores.T).abs().sum(1)
    return strength.argmax(1)
