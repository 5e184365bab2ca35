"""From stored arrays to measures: dimension, statistics, specialisation, discriminability. Never a model."""

from .battery import Analysis, analyze
from .views import AnalysisError

__all__ = ["Analysis", "AnalysisError", "analyze"]
