r"""Do the chosen words belong together? Their mean pairwise cosine, against random words and against a permuted unit.

Random sets of the dictionary have a known mean and variance (closed form, no sampling). But greedy methods do not draw at random: TextSpan
projects every chosen word out, so its sets are more diverse than chance and the closed form alone is biased. The second null runs the same
method on permuted data.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Dealt(NamedTuple):
    """Mean and standard deviation of the coherence of ``size`` words drawn from the dictionary without replacement."""

    mean: float
    std: float


def coherence(directions: Float[Tensor, "word d"]) -> float:
    """Mean cosine over pairs of unit vectors; NaN for fewer than two."""
    count = len(directions)
    if count < 2:
        return float("nan")
    x = directions.to(torch.float64)
    return float((x.sum(0).square().sum() - x.square().sum()) / (count * (count - 1)))


def dealt(texts: Float[Tensor, "text d"], size: int) -> Dealt:
    """Exact, over all sets of ``size`` words: two pairs of a set share two words, one word or none, and each case has its mean product."""
    x = texts.to(torch.float64)
    m = len(x)
    if not 2 <= size <= m or m < 4:
        return Dealt(float("nan"), float("nan"))
    cosines = x @ x.T
    cosines.fill_diagonal_(0)
    rows = cosines.sum(1)
    total, squares, row_squares = float(rows.sum()), float(cosines.square().sum()), float(rows.square().sum())
    mean = total / (m * (m - 1))
    same = squares / (m * (m - 1))
    touching = (row_squares - squares) / (m * (m - 1) * (m - 2))
    apart = (total**2 - 4 * row_squares + 2 * squares) / (m * (m - 1) * (m - 2) * (m - 3))
    pairs = size * (size - 1) / 2
    touch = 2 * (size - 2)
    second = (same + touch * touching + (pairs - 1 - touch) * apart) / pairs
    return Dealt(mean, sqrt(max(second - mean**2, 0.0)))


def z_score(value: float, mean: float, std: float) -> float:
    return (value - mean) / std if std > 1e-12 else float("nan")


class Null(NamedTuple):
    """A value among those of permuted data: z, and p = (1 + #{permuted ≥ value}) / (1 + permutations)."""

    z: float
    p: float


def against(value: float, permuted: Sequence[float]) -> Null:
    """NaN where the value, or too few of the permuted ones, exist."""
    others = torch.tensor([v for v in permuted if v == v], dtype=torch.float64)
    if value != value or len(others) < 2:
        return Null(float("nan"), float("nan"))
    return Null(z_score(value, float(others.mean()), float(others.std())), float((1 + (others >= value).sum()) / (1 + len(others))))


def word_stability(words: Int[Tensor, " word"], resampled: Sequence[Int[Tensor, " _"]]) -> Float[Tensor, " word"]:
    """For each word: the share of resamples of the clips in which it is chosen again, at any place."""
    if not resampled:
        return torch.full((len(words),), torch.nan, dtype=torch.float64)
    return torch.stack([torch.isin(words, again) for again in resampled]).to(torch.float64).mean(0)
