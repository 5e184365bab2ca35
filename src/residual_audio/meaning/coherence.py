r"""Do the chosen words belong together? Their mean pairwise cosine, against random words and against a permuted unit.

Random sets of the dictionary have a known mean and variance (closed form, no sampling). But greedy methods do not draw at random: TextSpan
projects every chosen word out, so its sets are more diverse than chance and the closed form alone is biased. The second null runs the same
method on permuted data: the same permutations for all units, so that also the *number* of coherent units has a null.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from scipy.stats import rankdata
from torch import Tensor

LEVEL = 0.05  # a list with a p up to this counts as coherent


class Dealt(NamedTuple):
    """Mean and standard deviation of the coherence of ``size`` words drawn from the dictionary without replacement."""

    mean: float
    std: float


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


def coherences(gram: Float[Tensor, "text text"], words: Int[Tensor, "run word"]) -> Float[Tensor, " run"]:
    """The coherence of many lists from the cosines of all words; −1: no word. NaN for fewer than two.

    Rounded, so that the same words in another order are as coherent, to the last digit.
    """
    there = (words >= 0).to(gram)
    pairs = gram[words[:, :, None], words[:, None, :]] * there[:, :, None] * there[:, None, :]
    count = there.sum(1)
    own = pairs.diagonal(dim1=1, dim2=2).sum(1)
    return torch.where(count > 1, (pairs.sum((1, 2)) - own) / (count * (count - 1)), torch.nan).round(decimals=12)


class Null(NamedTuple):
    """A value among those of permuted data: z, and p = (1 + #{permuted ≥ value}) / (1 + permutations)."""

    z: float
    p: float


def against(runs: Float[Tensor, " run"]) -> Null:
    """The first run is the observed one, the others are permuted. NaN where its value, or too few of the others, exist."""
    others = runs[1:][~runs[1:].isnan()]
    if runs[0].isnan() or len(others) < 2:
        return Null(float("nan"), float("nan"))
    value = float(runs[0])
    return Null(z_score(value, float(others.mean()), float(others.std())), (1 + int((others >= value).sum())) / len(runs))


class Count(NamedTuple):
    """How many units are coherent (p ≤ level), how many are in the mean of the permuted runs, and the p of as many or more."""

    significant: int
    expected: float
    p: float


def count_test(runs: Float[Tensor, "unit run"], level: float = LEVEL) -> Count:
    """Of units under the same permutations. In every run, observed (the first) or permuted, a unit has its p among all runs.

    Under the null the runs are exchangeable, whatever units share with each other: the p of the count is exact.
    """
    values = runs.nan_to_num(nan=-torch.inf).numpy()
    p = rankdata(-values, method="max", axis=1) / values.shape[1]
    counts = (p <= level).sum(0)
    return Count(int(counts[0]), float(counts[1:].mean()), float((counts >= counts[0]).mean()))


def word_stability(words: Int[Tensor, " word"], resampled: Sequence[Int[Tensor, " _"]]) -> Float[Tensor, " word"]:
    """For each word: the share of resamples of the clips in which it is chosen again, at any place."""
    if not resampled:
        return torch.full((len(words),), torch.nan, dtype=torch.float64)
    return torch.stack([torch.isin(words, again) for again in resampled]).to(torch.float64).mean(0)
