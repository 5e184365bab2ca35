r"""How alike are two heads? Three answers, each blind to something else.

| measure | compares | blind to | needs |
|---|---|---|---|
| spectrum | how the variance is spread over the axes | where the axes point | nothing in common |
| subspace | the covariances: spread and direction | which clip lies where | one common space |
| CKA | the geometry of the clips | rotation and scale of either space | the same clips |

Each is the cosine of two objects (spectra, covariances, Gram matrices of clips), so each lies in [0, 1], is symmetric, ignores the
scale of a head and is 1 for a head with itself. A head without variance has no direction: its row and column are NaN.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..spectra import shares

SIMILARITIES = ("spectra", "subspaces", "paired", "cka", "direct")
PAPER_SHARE = 0.9  # of the variance: the axes that ResiDual compares
ANYWHERE = ("spectra", "cka")  # also defined between units that are no heads
AT_ONCE = 16  # heads whose products are taken together: large enough for a fast matrix product, small enough for the cache


class WithinBetween(NamedTuple):
    """Mean similarity over pairs of heads of the same stage, of different stages, and within / between."""

    within: float
    between: float
    ratio: float
    defined_pairs: int


def rounding_floor(x: Float[Tensor, "clip head d"]) -> Float[Tensor, " head"]:
    r"""The variance that rounding alone can leave in a head: $\max(\max(n, d)\,\varepsilon_{64},\ \varepsilon_x^2) \cdot E|x|^2$.

    A variance is a difference of terms as large as $E|x|^2$, summed in float64 over n clips whose entries carry the rounding of their
    own type. Whatever is not above this is zero for all we can know, and ratios of it would be ratios of noise.
    """
    unit = max(max(x.shape[0], x.shape[2]) * torch.finfo(torch.float64).eps, torch.finfo(x.dtype).eps ** 2)
    return unit * x.double().square().sum(-1).mean(0)


def fingerprints(variance: Float[Tensor, "head axis"]) -> Float[Tensor, "head axis"]:
    r"""Share of a head's variance along each axis, $\lambda_i / \sum_j \lambda_j$. NaN for a head without variance."""
    return shares(variance.double())


def _cosine(products: Float[Tensor, "head head"]) -> Float[Tensor, "head head"]:
    """From inner products (upper triangle) to cosines; 0/0 gives the NaN of heads without variance."""
    length = products.diagonal().sqrt()
    upper = (products / length[:, None] / length).clamp(max=1.0).triu(1)
    return upper + upper.mT + torch.diag(length / length)


def _cross_products(x: Float[Tensor, "row head col"]) -> Float[Tensor, "head head"]:
    r"""$|X_a^\top X_b|_F^2 = \langle X_a X_a^\top, X_b X_b^\top\rangle_F$ for all a ≤ b, by the small side of the matrices."""
    rows, heads, cols = x.shape
    flat = x.reshape(rows, heads * cols)
    upper = x.new_zeros(heads, heads)
    for start in range(0, heads, AT_ONCE):
        some = slice(start, start + AT_ONCE)
        block = flat[:, start * cols : (start + AT_ONCE) * cols].mT @ flat[:, start * cols :]
        upper[some, start:] = block.square_().reshape(-1, heads - start, cols).sum(-1).reshape(-1, cols, heads - start).sum(1)
    return upper


def spectrum_similarity(variance: Float[Tensor, "head axis"]) -> Float[Tensor, "head head"]:
    r"""Cosine of eigenvalue spectra, $\lambda \cdot \mu / (|\lambda|\,|\mu|)$; equal for the raw and the normalised spectra."""
    return _cosine(variance.double() @ variance.double().mT)


def subspace_similarity(axes: Float[Tensor, "head axis d"], variance: Float[Tensor, "head axis"]) -> Float[Tensor, "head head"]:
    r"""Spectral cosine of the heads' subspaces: overlaps of their axes, weighted by the variances along them.

    $$ \frac{\sum_{ij} \lambda_i \mu_j (u_i \cdot v_j)^2}{|\lambda|\,|\mu|} = \frac{\langle C_a, C_b\rangle_F}{|C_a|_F\,|C_b|_F} $$

    with $C_a = \sum_i \lambda_i u_i u_i^\top$: 0 for orthogonal subspaces, 1 only for covariances that are multiples of each other, and
    unchanged when the common space is rotated. Give all the axes, or the leading ones to compare those alone.

    The caller passes heads that write into one space: contributions of one stage, say. Coordinates of head outputs before the projection
    are private to each head, and overlaps between them mean nothing. Two heads at random orientations are not at 0 but, on average, at
    $\sqrt{PR_a PR_b}/d$ with $PR = (\sum\lambda)^2/\sum\lambda^2$.

    ResiDual's own form pairs the axes off (:func:`paired_similarity`). Ours sums over all pairs: nothing to match, so axes of equal
    variance, which PCA returns in any rotation, cannot change it.
    """
    half = axes.double() * variance.double().sqrt()[:, :, None]
    return _cosine(_cross_products(half.permute(2, 0, 1)))


def paired_similarity(
    axes: Float[Tensor, "head axis d"], variance: Float[Tensor, "head axis"], share: float = PAPER_SHARE
) -> Float[Tensor, "head head"]:
    r"""ResiDual's normalised spectral cosine (arXiv 2411.00246), as published.

    Of each head the first axes that together hold more than ``share`` of its variance. They are paired off one to one, greedily by
    $\lambda_i \mu_j |u_i \cdot v_j|$; the similarity is the root of the sum of the squares of those products over
    $|(\lambda_1\mu_1, \lambda_2\mu_2, \dots)|$. 1 for a head with itself. Axes of nearly equal variance, which PCA returns in any
    rotation, can change it.
    """
    part = shares(variance.double())
    kept = part.cumsum(-1) - part <= share
    weight = variance.double() * kept
    half, count = axes.double() * weight[:, :, None], variance.shape[1]
    ideal = torch.einsum("ai,bi->abi", weight, weight).square().sum(-1)
    rows = []
    for some in half.split(AT_ONCE):
        left = torch.einsum("aid,bjd->abij", some, half).abs()
        found = left.new_zeros(left.shape[:2])
        for _ in range(count):
            best, place = left.flatten(2).max(-1)
            found += best.square()
            row, column = place // count, place % count
            left.scatter_(2, row[:, :, None, None].expand(-1, -1, 1, count), 0.0)
            left.scatter_(3, column[:, :, None, None].expand(-1, -1, count, 1), 0.0)
        rows.append(found)
    return (torch.cat(rows) / ideal).sqrt().clamp(max=1.0)


def covariance_similarity(covariance: Float[Tensor, "head d d"]) -> Float[Tensor, "head head"]:
    """``subspace_similarity`` of the covariances' own axes and variances."""
    flat = covariance.double().flatten(1)
    return _cosine(flat @ flat.mT)


def linear_cka(x: Float[Tensor, "clip head d"]) -> Float[Tensor, "head head"]:
    r"""Linear CKA between any two heads on the same clips: the cosine of their centred Gram matrices.

    $$ \frac{|X_a^\top X_b|_F^2}{|X_a^\top X_a|_F\,|X_b^\top X_b|_F} $$

    (Kornblith et al., arXiv 1905.00414.) Blind to rotation, shift and scale of either head. It needs many more clips than d: with n
    near d all heads look alike.
    """
    centred = x.double() - x.double().mean(0)
    constant = centred.square().sum(-1).mean(0) <= rounding_floor(x)
    return _cosine(_cross_products(centred.masked_fill(constant[:, None], 0.0)))


def within_between(similarity: Float[Tensor, "head head"], stages: Int[Tensor, " head"]) -> WithinBetween:
    """Over pairs i < j; pairs that are NaN are left out; a mean over no pair is NaN."""
    i, j = torch.triu_indices(len(stages), len(stages), 1)
    value, same = similarity[i, j], stages[i] == stages[j]
    defined = ~value.isnan()
    within, between = value[same & defined].mean(), value[~same & defined].mean()
    return WithinBetween(float(within), float(between), float(within / between), int(defined.sum()))
