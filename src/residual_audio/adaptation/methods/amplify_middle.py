"""Stages 2 and 3: components 5 to 15, counted from one, become louder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ...options import OptionError, option
from ..options import LouderOptions, first_to_last
from . import method

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from ..task import Adaptation, FoldTask


@dataclass(frozen=True)
class MiddleOptions(LouderOptions):
    """The report: components 5 to 15 of the last two stages."""

    blocks: str = option("4-11", "Blocks whose heads a preset changes, FIRST-LAST, counted from zero through all stages.")
    components: str | None = option("5-15", "Axes that amplify-middle makes louder, FIRST-LAST, counted from one; none: all.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.band  # noqa: B018

    @property
    def band(self) -> slice:
        """The components as places in a row."""
        first, last = (1, None) if self.components is None else first_to_last("--components", self.components, 1)
        return slice(first - 1, last)


def gains(variance: Float[Tensor, "unit axis"], options: MiddleOptions = MiddleOptions()) -> Float[Tensor, "unit axis"]:
    import torch

    if options.band.start >= variance.shape[-1]:
        raise OptionError(f"--components: heads have {variance.shape[-1]} axes, none from {options.band.start + 1} on")
    values = torch.ones_like(variance)
    values[:, options.band] = options.factor
    return values


@method(
    "amplify-middle",
    MiddleOptions,
    "heuristic of an earlier report, stages 2–3: components 5–15 × 1.5; nothing is trained",
    whole=True,
    adapter=True,
    labels="none",
    order=33,
)
def amplify_middle(task: FoldTask, options: MiddleOptions) -> Adaptation:
    from ..presets import preset

    return preset(task, options, partial(gains, options=options), "amplify-middle")
