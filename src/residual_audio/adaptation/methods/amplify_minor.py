"""Blocks 4 to 7: the axes beyond those that explain half of the variance become louder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ...options import option
from ..options import LouderOptions
from . import method

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from ..task import Adaptation, FoldTask


@dataclass(frozen=True)
class MinorOptions(LouderOptions):
    """Where minor components begin is not said in the report."""

    blocks: str = option("4-7", "Blocks whose heads a preset changes, FIRST-LAST, counted from zero through all stages.")
    beyond: float = option(0.5, "amplify-minor takes the axes beyond those that explain this share of the variance.", least=0)


def gains(variance: Float[Tensor, "unit axis"], options: MinorOptions = MinorOptions()) -> Float[Tensor, "unit axis"]:
    import torch

    before = (variance.cumsum(-1) - variance) / variance.sum(-1, keepdim=True).clamp_min(1e-300)
    return torch.where(before >= options.beyond, options.factor, 1.0).to(variance)


@method(
    "amplify-minor",
    MinorOptions,
    "heuristic of an earlier report, blocks 4–7: axes beyond half of the variance × 1.5; nothing is trained",
    whole=True,
    adapter=True,
    labels="none",
    order=31,
)
def amplify_minor(task: FoldTask, options: MinorOptions) -> Adaptation:
    from ..presets import preset

    return preset(task, options, partial(gains, options=options), "amplify-minor")
