"""From stored arrays to measures: dimension, statistics, specialisation, discriminability. Never a model."""

from .battery import Analysis, analyze
from .between import between_datasets, same_model
from .errors import AnalysisError
from .importance import importance
from .keys import select
from .measures import MEASURES, Measure, measure_title

__all__ = [
    "MEASURES",
    "Analysis",
    "AnalysisError",
    "Measure",
    "analyze",
    "between_datasets",
    "importance",
    "measure_title",
    "same_model",
    "select",
]
