"""One file per classifier: it registers itself, and everything else finds it in the registry."""

from ..directions import centroid_directions, class_directions, prompt_directions
from .probe import fit_probe

__all__ = ["centroid_directions", "class_directions", "fit_probe", "prompt_directions"]
