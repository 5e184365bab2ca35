"""What a model loses without a unit: the engine that replaces units, and the study that asks a classifier."""

from .result import AblationResult
from .study import ablate

__all__ = ["AblationResult", "ablate"]
