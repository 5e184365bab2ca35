"""Blocks 0 and 1: the three leading axes of every head stay, the others are silenced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..options import PresetOptions
from . import method

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from ..task import Adaptation, FoldTask

WHAT = "blocks 0–1: three leading axes per head, the others off"
BLOCKS = (0, 1)
LEADING = 3


def gains(variance: Float[Tensor, "unit axis"]) -> Float[Tensor, "unit axis"]:
    import torch

    values = torch.zeros_like(variance)
    values[:, :LEADING] = 1
    return values


@method(
    "prune-early",
    PresetOptions,
    f"heuristic of an earlier report, {WHAT}; nothing is trained",
    whole=True,
    adapter=True,
    labels="none",
    order=30,
)
def prune_early(task: FoldTask, options: PresetOptions) -> Adaptation:
    from ..presets import preset

    return preset(task, options, BLOCKS, gains, f"prune-early: {WHAT}")
