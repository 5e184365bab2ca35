"""Gains in closed form: every axis of the chosen heads as loud as its share of class information. One pass, nothing is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..options import Axes, Basis, Selected
from . import method

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from ..task import Adaptation, FoldTask


@dataclass(frozen=True)
class FisherOptions(Basis, Axes, Selected):
    """All axes of the heads of a selection."""


def fisher_gains(
    ratio: Float[Tensor, "unit axis"], variance: Float[Tensor, "unit axis"], classes: int, clips: int
) -> Float[Tensor, "unit axis"]:
    r"""From each axis' between/within-class ratio r. An axis is heard in proportion to the class information it carries.

    $s = \max(0, r - r_0)$ with $r_0 = (k-1)/(n-k)$, what labels that say nothing give; $w = \sqrt{s/(1+s)}$, the correlation of the axis
    with the classes; gains are $w$ scaled so that each unit writes as much variance as before: $\sum_i g_i^2 \lambda_i = \sum_i \lambda_i$.
    A unit none of whose axes says anything keeps gains of one.
    """
    import torch

    chance = (classes - 1) / max(clips - classes, 1)
    signal = (ratio.nan_to_num(0.0, posinf=1e6) - chance).clamp_min(0)
    weight = (signal / (1 + signal)).sqrt().to(variance)
    written = (weight.square() * variance).sum(-1, keepdim=True)
    scale = (variance.sum(-1, keepdim=True) / written.clamp_min(1e-300)).sqrt()
    return torch.where(written > 0, weight * scale, torch.ones_like(variance))


@method("fisher-gains", FisherOptions, "gains by class information, in closed form; nothing is trained", adapter=True, order=21)
def fisher(task: FoldTask, options: FisherOptions) -> Adaptation:
    from ...analysis.discriminability import component_fisher
    from ..ranking import head_places, pooled_heads
    from ..starting import at_work, bases_of, starting

    places, train = head_places(task.encoder.units, options.units), task.parts.train
    bases = bases_of(task, places, options.level, options.basis)
    notes = {"units": options.units, "level": options.level, "basis": options.basis}
    start = starting(task, places, bases, options.mean, notes=notes)
    pooled = pooled_heads(task, places, train).split([len(p.heads) for p in places], 1)
    gains = []
    for one, outputs in zip(start.sets, pooled, strict=True):
        ratio = component_fisher(outputs, one.axes.cpu(), task.targets[train], task.classes)
        gains.append(fisher_gains(ratio.to(one.variance), one.variance, task.classes, len(train)))
    chosen = start.with_values(gains)
    return at_work(task, chosen)
