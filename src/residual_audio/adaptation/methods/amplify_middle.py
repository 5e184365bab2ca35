"""Stages 2 and 3: components 5 to 15, counted from one, become louder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..options import PresetOptions
from . import method

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from ..task import Adaptation, FoldTask

WHAT = "stages 2–3: components 5–15 × 1.5"
BLOCKS = (4, 11)
FIRST, LAST, FACTOR = 5, 15, 1.5


def gains(variance: Float[Tensor, "unit axis"]) -> Float[Tensor, "unit axis"]:
    import torch

    values = torch.ones_like(variance)
    values[:, FIRST - 1 : LAST] = FACTOR
    return values


@method(
    "amplify-middle",
    PresetOptions,
    f"heuristic of an earlier report, {WHAT}; nothing is trained",
    whole=True,
    adapter=True,
    labels="none",
    order=33,
)
def amplify_middle(task: FoldTask, options: PresetOptions) -> Adaptation:
    from ..presets import preset

    return preset(task, options, BLOCKS, gains, f"amplify-middle: {WHAT}")
