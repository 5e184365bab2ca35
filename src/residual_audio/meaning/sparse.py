r"""A sparse non-negative code: a few concepts, none of them against, that add up to a sound.

.. math:: \min_{c \ge 0} \tfrac12 |x - C^\top c|^2 + \lambda \sum_j c_j

(the non-negative lasso; Tibshirani 1996, SpLiCE: Bhalla et al. 2024). On its support A the solution is affine in x,
$c_A = G_{AA}^{-1}(C_A x - \lambda)$, so that whatever adds up to x splits the code exactly (:func:`split`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

STEP = 0.9  # from one penalty to the next smaller one
SMALLEST = 1e-3  # of the largest penalty that leaves any concept


@dataclass(frozen=True)
class Code:
    """``weights [word]``, most of them 0, at ``penalty`` λ; ``explained``: the part of |x|² that the code reaches."""

    weights: Float[np.ndarray, " word"]
    penalty: float
    explained: float

    @property
    def support(self) -> Int[np.ndarray, " active"]:
        """The words with a weight, the largest first."""
        active = np.flatnonzero(self.weights)
        return active[np.argsort(-self.weights[active], kind="stable")]


def nonnegative(gram: Float[np.ndarray, "word word"], target: Float[np.ndarray, " word"]) -> Float[np.ndarray, " word"]:
    """min ½ cᵀGc − targetᵀc over c ≥ 0, by Lawson and Hanson's (1974) active sets: exact to rounding, in finitely many steps."""
    weights, active = np.zeros(len(target)), np.zeros(len(target), dtype=bool)
    tolerance = 1e-12 * max(1.0, float(np.abs(target).max(initial=0.0)))
    for _ in range(10 * len(target) + 10):
        slope = np.where(active, -np.inf, target - gram @ weights)
        if not len(slope) or slope.max() <= tolerance:
            break
        active[slope.argmax()] = True
        while True:
            wanted = np.zeros_like(weights)
            inside = np.flatnonzero(active)
            wanted[inside] = np.linalg.lstsq(gram[np.ix_(inside, inside)], target[inside], rcond=None)[0]
            if (wanted[inside] > 0).all():
                weights = wanted
                break
            low = inside[wanted[inside] <= 0]
            step = (weights[low] / (weights[low] - wanted[low]).clip(1e-300)).min()
            weights = weights + step * (wanted - weights)
            active &= weights > tolerance
            weights[~active] = 0.0
            if not active.any():
                break
    return weights


def lasso(x: Float[np.ndarray, " d"], words: Float[np.ndarray, "word d"], penalty: float) -> Code:
    """The code at one penalty. The fit without its penalty is not made again: weights are shrunk, as in SpLiCE."""
    x, words = np.asarray(x, dtype=np.float64), np.asarray(words, dtype=np.float64)
    return _code(words @ words.T, words @ x, penalty, float(x @ x))


def _code(gram: Float[np.ndarray, "word word"], products: Float[np.ndarray, " word"], penalty: float, total: float) -> Code:
    weights = nonnegative(gram, products - penalty)
    return Code(weights, penalty, float(2 * weights @ products - weights @ gram @ weights) / max(total, 1e-300))


def sparse_code(x: Float[np.ndarray, " d"], words: Float[np.ndarray, "word d"], most: int) -> Code:
    """The code with the smallest penalty, on a fixed grid from the largest down, that still has at most ``most`` words."""
    x, words = np.asarray(x, dtype=np.float64), np.asarray(words, dtype=np.float64)
    gram, products, total = words @ words.T, words @ x, float(x @ x)
    penalty = largest = float(products.max(initial=0.0))
    best = _code(gram, products, largest, total)
    while penalty > SMALLEST * largest and largest > 0:
        penalty *= STEP
        code = _code(gram, products, penalty, total)
        if len(code.support) > most:
            break
        best = code
    return best


def split(code: Code, parts: Float[np.ndarray, "part d"], words: Float[np.ndarray, "word d"]) -> tuple[np.ndarray, np.ndarray]:
    """Each part's share of each weight of the support ``[part, active]``, and the penalty's ``[active]``.

    Invariant: where parts sum to x, shares over parts plus the penalty's are the weights.
    """
    active = np.asarray(words, dtype=np.float64)[code.support]
    inverse = np.linalg.pinv(active @ active.T, hermitian=True) if len(active) else np.zeros((0, 0))
    return np.asarray(parts, dtype=np.float64) @ active.T @ inverse, -code.penalty * inverse.sum(1)
