"""Where rooms meet: studies that run a model on a dataset, change it, and evaluate what came of it."""

from .ablation import AblationResult, ablate

__all__ = ["AblationResult", "ablate"]
