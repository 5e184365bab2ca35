"""Blocks 0 and 1: two or three leading axes of every head stay, the others are silenced."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ...options import option
from ..options import PresetOptions
from . import method

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from ..task import Adaptation, FoldTask


@dataclass(frozen=True)
class PruneOptions(PresetOptions):
    """The report keeps two or three axes."""

    leading: int = option(3, "Leading axes per head that prune-early keeps (the report: 2 or 3).", least=1)


def gains(variance: Float[Tensor, "unit axis"], options: PruneOptions = PruneOptions()) -> Float[Tensor, "unit axis"]:
    import torch

    values = torch.zeros_like(variance)
    values[:, : options.leading] = 1
    return values


@method(
    "prune-early",
    PruneOptions,
    "heuristic of an earlier report, blocks 0–1: three leading axes per head, the others off; nothing is trained",
    whole=True,
    adapter=True,
    labels="none",
    order=30,
)
def prune_early(task: FoldTask, options: PruneOptions) -> Adaptation:
    from ..presets import preset

    return preset(task, options, partial(gains, options=options), "prune-early")
