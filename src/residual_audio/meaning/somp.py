r"""Simultaneous orthogonal matching pursuit (Tropp, Gilbert & Strauss 2006): one sparse set of words for all rows at once.

Again and again: take the word with the largest $\sum_i |\langle \rho_i, t_j \rangle|$ of the residuals $\rho_i$, then fit all rows anew by
least squares on the words chosen so far. Words stay whole, also outside the unit's span. With one row it is ordinary OMP.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from .textspan import Choice


def somp(rows: Float[Tensor, "row d"], texts: Float[Tensor, "text d"], count: int) -> Choice:
    """``rows``: a unit's centred shares. ``texts`` of unit length. Fewer than ``count`` words if no more can explain anything."""
    rows, texts = rows.to(torch.float64), texts.to(torch.float64)
    return pursue(texts @ rows.T, texts, count, float(rows.square().sum()))


def pursue(products: Float[Tensor, "text row"], texts: Float[Tensor, "text d"], count: int, total: float) -> Choice:
    r"""The same from the inner products of words and rows.

    With q the part of a chosen word that is orthogonal to those before it, $\rho \leftarrow \rho - (\rho \cdot q) q$, and
    $\rho \cdot q = \rho \cdot t / |t - Pt|$: the residuals themselves are never needed.
    """
    chosen: list[int] = []
    explained: list[float] = []
    basis, done = texts.new_zeros(0, texts.shape[1]), 0.0
    for _ in range(min(count, *texts.shape)):
        strength = products.abs().sum(1)
        strength[chosen] = -1.0
        best = int(strength.argmax())
        fresh = texts[best]
        for _ in range(2):  # twice, against rounding
            fresh = fresh - (fresh @ basis.T) @ basis
        length = fresh.norm()
        if length <= 1e-9 or products[best].square().sum() <= 1e-18 * total:
            break
        fresh, along = fresh / length, products[best] / length
        products = products - torch.outer(texts @ fresh, along)
        basis = torch.cat([basis, fresh[None]])
        done += float(along.square().sum())
        chosen.append(best)
        explained.append(done / total)
    return Choice.of(chosen, explained)
