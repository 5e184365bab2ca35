r"""Forms, one per file: how learned numbers become the matrix M of $y = \mu' + (I + \Phi_k^\top M\, \Phi_k)(z - \mu)$.

To add one: a file here that adds a :class:`Form` to ``FORMS``. It then attaches, trains, saves, folds and shows by itself, is a value of
``--form`` and a method of comparisons. Heavy imports belong inside functions, so that ``--help`` does not wait for torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...options import OptionError
from ...registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

# Outside heads, a matrix is learned inside so many leading axes where nothing else is asked for (docs/results/trials.md); gains on all.
WIDE = 32


@dataclass(frozen=True)
class Form:
    """``count(k)``: how many numbers a unit has inside k axes. ``neutral``: their value where nothing changes.

    ``turned(values [unit, number], axes [unit, k, d])`` gives $M^\\top \\Phi_k$ ``[unit, k, d]``; ``start(gain [unit, k])`` the numbers
    whose M is diag(g − 1). ``scale``: of their learning rate against that of gains.
    """

    name: str
    help: str
    count: Callable[[int], int]
    neutral: float
    turned: Callable[[Tensor, Tensor], Tensor]
    start: Callable[[Tensor], Tensor] | None
    scale: float = 1.0
    order: int = 50

    def wide_axes(self, axes: int) -> int:
        """How many leading axes of a unit that is no head are changed, where nothing else is asked for."""
        return min(axes, WIDE) if self.count(axes) > axes else axes


FORMS: Registry[Form] = Registry("form", __name__, OptionError)
