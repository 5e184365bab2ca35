"""What a model loses without a unit: the engine that replaces units, and the study that asks a classifier."""

from .study import AblationResult, ablate

__all__ = ["AblationResult", "ablate"]
