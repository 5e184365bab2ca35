"""Where rooms meet: studies that run a model on a dataset, change it, and evaluate what came of it."""

from .ablation import AblationResult, ablate
from .adapt import Adapted, adapt
from .compare import Comparison, compare
from .methods import METHODS
from .task import Recipe

__all__ = ["METHODS", "AblationResult", "Adapted", "Comparison", "Recipe", "ablate", "adapt", "compare"]
