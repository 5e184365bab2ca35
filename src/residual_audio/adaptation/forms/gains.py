"""ResiDual: one gain per axis, M = diag(g − 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import FORMS, Form

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


def turned(values: Float[Tensor, "unit k"], axes: Float[Tensor, "unit k d"]) -> Float[Tensor, "unit k d"]:
    return axes * (values - 1)[..., None]


FORMS.add(Form("gains", "one gain per principal axis, ResiDual", lambda k: k, 1.0, turned, lambda gain: gain, order=1))
