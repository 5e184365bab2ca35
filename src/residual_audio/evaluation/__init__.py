"""Honest measurement: classifiers, metrics and intervals."""

from .classifiers import centroid_directions, prompt_directions
from .readout import EvaluationError
from .significance import Interval, macro_interval, mean_interval
from .zero_shot import ZeroShotResult, zero_shot

__all__ = [
    "EvaluationError",
    "Interval",
    "ZeroShotResult",
    "centroid_directions",
    "macro_interval",
    "mean_interval",
    "prompt_directions",
    "zero_shot",
]
