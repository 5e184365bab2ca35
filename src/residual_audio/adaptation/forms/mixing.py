"""A full matrix inside the kept axes: what lies along one axis may be written along another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import FORMS, Form

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


def turned(values: Float[Tensor, "unit kk"], axes: Float[Tensor, "unit k d"]) -> Float[Tensor, "unit k d"]:
    k = axes.shape[-2]
    inside: Tensor = values.unflatten(-1, (k, k))
    return inside.mT @ axes


def start(gain: Float[Tensor, "unit k"]) -> Float[Tensor, "unit kk"]:
    return (gain - 1).diag_embed().flatten(-2)


FORMS.add(Form("mixing", "a full matrix inside the kept axes", lambda k: k * k, 0.0, turned, start, scale=0.1, order=3))
