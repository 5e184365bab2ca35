"""Blocks 10 and 11: axes whose variance is small against that of the first are silenced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..options import PresetOptions
from . import method

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from ..task import Adaptation, FoldTask

WHAT = "blocks 10–11: axes with λᵢ/λ₁ < 0.05 off"
BLOCKS = (10, 11)
WEAK = 0.05


def gains(variance: Float[Tensor, "unit axis"]) -> Float[Tensor, "unit axis"]:
    return (variance >= WEAK * variance[:, :1]).to(variance)


@method(
    "suppress-weak",
    PresetOptions,
    f"heuristic of an earlier report, {WHAT}; nothing is trained",
    whole=True,
    adapter=True,
    labels="none",
    order=32,
)
def suppress_weak(task: FoldTask, options: PresetOptions) -> Adaptation:
    from ..presets import preset

    return preset(task, options, BLOCKS, gains, f"suppress-weak: {WHAT}")
