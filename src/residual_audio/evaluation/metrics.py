"""Classification measures from a score matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Outcome:
    """What a classifier did on ``n`` clips: the rank of the true class (0 = right) and the class it chose.

    Ties are broken against the true class, so a constant classifier scores 0, not 1.
    """

    targets: np.ndarray
    predicted: np.ndarray
    rank: np.ndarray
    classes: int

    @property
    def correct(self) -> np.ndarray:
        return self.rank == 0


def outcome(scores: np.ndarray, targets: np.ndarray) -> Outcome:
    """``scores [clip, class]`` → who won."""
    own = scores[np.arange(len(targets)), targets][:, None]
    rank = (scores >= own).sum(1) - 1
    rivals = scores.copy()
    rivals[np.arange(len(targets)), targets] = -np.inf
    predicted = np.where(rank == 0, targets, rivals.argmax(1)) if scores.shape[1] > 1 else targets.copy()
    return Outcome(targets, predicted, rank, scores.shape[1])


def margins(scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """``scores [..., clip, class]`` → the true class's score above the best other one's: positive where it wins."""
    place = np.broadcast_to(targets[:, None], (*scores.shape[:-1], 1))
    own = np.take_along_axis(scores, place, -1)[..., 0]
    rivals = scores.copy()
    np.put_along_axis(rivals, place, -np.inf, -1)
    return own.astype(np.float64) - rivals.max(-1)


def top_k(result: Outcome, k: int) -> np.ndarray:
    """Per clip: is the true class among the best k?"""
    return result.rank < k


def per_class_mean(values: np.ndarray, targets: np.ndarray, classes: int) -> np.ndarray:
    """The mean of ``values`` within each class; NaN for a class without clips."""
    count = np.bincount(targets, minlength=classes)
    total = np.bincount(targets, weights=values.astype(float), minlength=classes)
    return np.divide(total, count, out=np.full(classes, np.nan), where=count > 0)


def macro(values: np.ndarray, targets: np.ndarray, classes: int) -> float:
    """The mean over classes of their means; classes without clips do not count."""
    return float(np.nanmean(per_class_mean(values, targets, classes)))


def confusion(result: Outcome) -> np.ndarray:
    """``[true class, chosen class]`` counts."""
    flat = result.targets * result.classes + result.predicted
    return np.bincount(flat, minlength=result.classes**2).reshape(result.classes, result.classes)
