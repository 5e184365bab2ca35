"""Blocks 4 to 7: the axes beyond those that explain half of the variance become louder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..options import PresetOptions
from . import method

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from ..task import Adaptation, FoldTask

WHAT = "blocks 4–7: axes beyond half of the variance × 1.5"
BLOCKS = (4, 7)
HALF, FACTOR = 0.5, 1.5


def gains(variance: Float[Tensor, "unit axis"]) -> Float[Tensor, "unit axis"]:
    import torch

    before = (variance.cumsum(-1) - variance) / variance.sum(-1, keepdim=True).clamp_min(1e-300)
    return torch.where(before >= HALF, FACTOR, 1.0).to(variance)


@method(
    "amplify-minor",
    PresetOptions,
    f"heuristic of an earlier report, {WHAT}; nothing is trained",
    whole=True,
    adapter=True,
    labels="none",
    order=31,
)
def amplify_minor(task: FoldTask, options: PresetOptions) -> Adaptation:
    from ..presets import preset

    return preset(task, options, BLOCKS, gains, f"amplify-minor: {WHAT}")
