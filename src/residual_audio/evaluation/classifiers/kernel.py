"""Kernel ridge regression of what the prompts leave (ProKeR: Bendou et al., CVPR 2025); closed form.

Minimising Σᵢ |yᵢ − f(xᵢ)|² + λ |f − f₀|² in the kernel's space gives f(x) = f₀(x) + k(x, S) (K + λI)⁻¹ (Y − f₀(S)), with one-hot Y, the
cosines with the texts as f₀, and k(x, s) = exp(−β (1 − x·s)). Without texts f₀ = 0: ridge regression alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, product

import torch

from ..classifier import CLASSIFIERS, Classifier
from ..examples import Examples, choose
from ..scorers import Cache, nearness

# Sharpness β and pull λ. The authors' grids are β 0.5–3 and λ 0.001–1, on images; audio embeddings lie closer together.
GRID = tuple(product((0.5, 1.0, 2.0, 4.0, 8.0, 16.0), (1.0, 0.1, 0.01, 0.001)))
MIDDLE = (2.0, 0.1)


def ridges(examples: Examples, grid: Sequence[tuple[float, float]]) -> Iterator[Cache]:
    """One for every point of the grid; those of one β share their kernel."""
    x = examples.embeddings.double()
    texts = torch.zeros_like(examples.zero_shot) if examples.texts is None else examples.texts
    left = examples.one_hot.double() - x @ texts.double().T
    for beta, points in groupby(grid, key=lambda point: point[0]):
        kernel = nearness(x, x, beta)
        for _, pull in points:
            factor = torch.linalg.cholesky(kernel + pull * torch.eye(len(x), dtype=x.dtype))
            values = torch.cholesky_solve(left, factor).to(examples.embeddings)
            yield Cache(texts, examples.embeddings, values, beta, chosen={"beta": beta, "lambda": pull})


def make(examples: Examples) -> Cache:
    point = choose(examples, GRID, lambda part: ridges(part, GRID), MIDDLE)
    return next(ridges(examples, [point]))


CLASSIFIERS.add(
    Classifier(
        "kernel", "kernel ridge regression of what the prompts leave (ProKeR); without texts of everything", make, "optional", order=32
    )
)
