"""Blocks 10 and 11: axes whose variance is small against that of the first are silenced."""

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
class WeakOptions(PresetOptions):
    """The report: λᵢ/λ₁ < 0.05."""

    blocks: str = option("10-11", "Blocks whose heads a preset changes, FIRST-LAST, counted from zero through all stages.")
    weak: float = option(0.05, "suppress-weak silences axes whose variance is below this share of the first's, λᵢ/λ₁.", least=0)


def gains(variance: Float[Tensor, "unit axis"], options: WeakOptions = WeakOptions()) -> Float[Tensor, "unit axis"]:
    return (variance >= options.weak * variance[:, :1]).to(variance)


@method(
    "suppress-weak",
    WeakOptions,
    "heuristic of an earlier report, blocks 10–11: axes with λᵢ/λ₁ < 0.05 off; nothing is trained",
    whole=True,
    adapter=True,
    labels="none",
    order=32,
)
def suppress_weak(task: FoldTask, options: WeakOptions) -> Adaptation:
    from ..presets import preset

    return preset(task, options, partial(gains, options=options), "suppress-weak")
