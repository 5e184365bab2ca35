"""Tip-Adapter (Zhang et al., ECCV 2022): training clips vote for a class by how near they are, beside the prompts; nothing is learned.

Scores s e·t_c + α Σᵢ exp(−β (1 − e·fᵢ)) yᵢ_c. Without texts, the votes alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from ..classifier import CLASSIFIERS, Classifier
from ..examples import Examples, choose
from ..scorers import Cache

# Sharpness β and weight α of the votes; where there is nothing to choose by, the authors' own.
GRID = tuple(product((1.0, 2.0, 5.5, 12.0, 25.0, 50.0), (0.1, 0.3, 1.0, 3.0, 10.0)))
MIDDLE = (5.5, 1.0)


def votes(examples: Examples, grid: Sequence[tuple[float, float]]) -> Iterator[Cache]:
    for beta, alpha in grid:
        values = alpha * examples.one_hot
        yield Cache(examples.zero_shot, examples.embeddings, values, beta, chosen={"beta": beta, "alpha": alpha})


def chosen_point(examples: Examples) -> tuple[float, float]:
    """β and α, chosen inside the examples."""
    return choose(examples, GRID, lambda part: votes(part, GRID), MIDDLE)


def make(examples: Examples) -> Cache:
    return next(votes(examples, [chosen_point(examples)]))


CLASSIFIERS.add(
    Classifier(
        "tip", "prompts and the votes of near training clips (Tip-Adapter); without texts the votes alone", make, "optional", order=33
    )
)
