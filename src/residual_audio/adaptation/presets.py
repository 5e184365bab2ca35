r"""Gains without training: the seeds' strategies by name, and one of ours in closed form.

The strategies (report on spectral reweighting, section 4.1 and outlook) were proposed for the twelve blocks of HTS-AT and are given in
words; what the words leave open is fixed here: "leading" are three axes, "minor" the axes beyond those that explain half of the variance,
"amplify" is a factor of 1.5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..units import SelectionError, UnitTable
from .select import Place

LEADING, FACTOR, WEAK, FIRST, LAST = 3, 1.5, 0.05, 5, 15


def prune(variance: Float[Tensor, "unit axis"]) -> Float[Tensor, "unit axis"]:
    """The leading axes stay, the others vanish."""
    gains = torch.zeros_like(variance)
    gains[:, :LEADING] = 1
    return gains


def amplify_minor(variance: Float[Tensor, "unit axis"]) -> Float[Tensor, "unit axis"]:
    before = (variance.cumsum(-1) - variance) / variance.sum(-1, keepdim=True).clamp_min(1e-300)
    return torch.where(before >= 0.5, FACTOR, 1.0).to(variance)


def suppress_weak(variance: Float[Tensor, "unit axis"]) -> Float[Tensor, "unit axis"]:
    """Axes with λᵢ/λ₁ < 0.05 vanish."""
    return (variance >= WEAK * variance[:, :1]).to(variance)


def amplify_middle(variance: Float[Tensor, "unit axis"]) -> Float[Tensor, "unit axis"]:
    """Components 5 to 15, counted from one."""
    gains = torch.ones_like(variance)
    gains[:, FIRST - 1 : LAST] = FACTOR
    return gains


@dataclass(frozen=True)
class Preset:
    """``blocks``: counted through all stages, first and last."""

    what: str
    blocks: tuple[int, int]
    gains: Callable[[Tensor], Tensor]

    def places(self, units: UnitTable) -> list[Place]:
        """The heads of the preset's blocks."""
        first, last = self.blocks
        pairs = list(units.blocks)[first : last + 1]
        if not pairs:
            raise SelectionError(f"this preset is for blocks {first} to {last}, and the encoder has {len(units.blocks)}")
        return [Place("heads", ((s, b),), tuple(range(units.heads[s][b]))) for s, b in pairs]


PRESETS = {
    "prune-early": Preset("blocks 0–1: three leading axes a head, the others off", (0, 1), prune),
    "amplify-minor": Preset("blocks 4–7: axes beyond half of the variance × 1.5", (4, 7), amplify_minor),
    "suppress-weak": Preset("blocks 10–11: axes with λᵢ/λ₁ < 0.05 off", (10, 11), suppress_weak),
    "amplify-middle": Preset("stages 2–3: components 5–15 × 1.5", (4, 11), amplify_middle),
}


def fisher_gains(
    ratio: Float[Tensor, "unit axis"], variance: Float[Tensor, "unit axis"], classes: int, clips: int
) -> Float[Tensor, "unit axis"]:
    r"""Ours: from each axis' between/within-class ratio r. An axis is heard in proportion to the class information it carries.

    $s = \max(0, r - r_0)$ with $r_0 = (k-1)/(n-k)$, what labels that say nothing give; $w = \sqrt{s/(1+s)}$, the correlation of the axis
    with the classes; gains are $w$ scaled so that each unit writes as much variance as before: $\sum_i g_i^2 \lambda_i = \sum_i \lambda_i$.
    A unit none of whose axes says anything keeps gains of one.
    """
    chance = (classes - 1) / max(clips - classes, 1)
    signal = (ratio.nan_to_num(0.0, posinf=1e6) - chance).clamp_min(0)
    weight = (signal / (1 + signal)).sqrt().to(variance)
    written = (weight.square() * variance).sum(-1, keepdim=True)
    scale = (variance.sum(-1, keepdim=True) / written.clamp_min(1e-300)).sqrt()
    return torch.where(written > 0, weight * scale, torch.ones_like(variance))
