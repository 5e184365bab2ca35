"""Honest measurement: classifiers, metrics and intervals."""

from .classifier import CLASSIFIERS, Classifier, Fitted, FoldClassifier, choose_classifier
from .classifiers import centroid_directions, prompt_directions
from .errors import EvaluationError
from .examples import Examples
from .significance import Interval, class_intervals, macro_interval, mean_interval
from .zero_shot import ZeroShotResult, zero_shot

__all__ = [
    "CLASSIFIERS",
    "Classifier",
    "EvaluationError",
    "Examples",
    "Fitted",
    "FoldClassifier",
    "Interval",
    "ZeroShotResult",
    "centroid_directions",
    "choose_classifier",
    "class_intervals",
    "macro_interval",
    "mean_interval",
    "prompt_directions",
    "zero_shot",
]
