"""What adapting to some classes does to the others: accuracy on base classes against that on novel ones."""

from __future__ import annotations

from functools import partial

from .accuracy_vs_cost import plot
from .drawing import FIGURES, Drawing

DRAWN = partial(
    plot,
    column="novel",
    across="accuracy on novel classes, by prompts (%)",
    up="accuracy on base classes (%)",
    title="Base and novel classes",
)
FIGURE = FIGURES.add(Drawing("accuracy_vs_novel", {"comparison_summary": ("accuracy", "novel")}, DRAWN, order=42))
