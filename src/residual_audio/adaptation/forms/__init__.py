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

# Outside heads, a form holds up to so many numbers per unit (a 64 × 64 matrix); wider units get gains.
MOST = 64 * 64


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


FORMS: Registry[Form] = Registry("form", __name__, OptionError)


def form_of(kind: str, axes: int, form: str, wide: str | None = None) -> Form:
    """The form of a place with so many kept axes: ``form`` for heads; for others ``wide``, or ``form`` where it is small, or gains."""
    if kind == "heads":
        return FORMS[form]
    return FORMS[wide or (form if FORMS[form].count(axes) <= MOST else "gains")]
