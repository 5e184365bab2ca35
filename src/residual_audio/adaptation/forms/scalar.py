"""A volume knob instead of an equaliser: a single number per unit, M = (g − 1) I."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import FORMS, Form

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


def turned(values: Float[Tensor, "unit 1"], axes: Float[Tensor, "unit k d"]) -> Float[Tensor, "unit k d"]:
    return axes * (values - 1)[..., None]


FORMS.add(Form("scalar", "one gain per unit", lambda k: 1, 1.0, turned, None, order=0))
