"""What replacing a unit would cost, to first order: all chosen units in one forward and one backward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..decomposition.heads import split_heads
from ..models import BlockSite, Encoder
from ..models.recording import record
from ..units import Unit
from .engine import Replacements

# What is looked at for each kind: the head outputs, the MLP's write, or the attention's.
REACH = {"head": "heads", "mlp": "mlp", "block": "write", "stage": "write"}


def first_order(
    encoder: Encoder,
    features: Float[Tensor, "clip channel frame mel"],
    longer: Bool[Tensor, " clip"],
    score: Callable[[Float[Tensor, "clip d"]], Float[Tensor, " clip"]],
    units: Sequence[Unit],
    replacements: Replacements,
) -> Float[Tensor, "unit clip"]:
    r"""How much each unit's replacement would lower ``score(embedding)``, to first order: $\nabla_z s \cdot (z - r)$."""
    number = {(s.stage, s.block): i for i, s in enumerate(encoder.sites)}
    touched = {u: [i for (stage, block), i in number.items() if stage == u.stage and u.block in (-1, block)] for u in units}
    kept: dict[tuple[str, int], Tensor] = {}

    def keeping(reach: str) -> Callable[[BlockSite, Tensor], None]:
        def keep(site: BlockSite, x: Tensor) -> None:
            x.retain_grad()
            kept[reach, number[site.stage, site.block]] = x

        return keep

    reaches: dict[str, Any] = {reach: keeping(reach) for reach in {REACH[u.kind] for u in units}}
    sites = tuple(encoder.sites[i] for i in sorted({i for some in touched.values() for i in some}))
    with torch.enable_grad(), record(encoder, **reaches, sites=sites):
        score(encoder.encode(features.detach().requires_grad_(), longer)).sum().backward(inputs=list(kept.values()))  # not the weights
    effects = {(reach, i): _effect(encoder, reach, i, x, len(features), replacements) for (reach, i), x in kept.items()}

    def of(unit: Unit) -> Float[Tensor, " clip"]:
        parts = [effects[REACH[unit.kind], i] for i in touched[unit]]
        if unit.kind == "head":
            return split_heads(parts[0], encoder.sites[touched[unit][0]].heads)[:, unit.head].sum(-1)
        return torch.stack([part.sum(-1) for part in parts]).sum(0)

    return torch.stack([of(unit) for unit in units])


def _effect(encoder: Encoder, reach: str, block: int, x: Tensor, clips: int, replacements: Replacements) -> Float[Tensor, "clip d"]:
    """Gradient times the way to the replacement, summed over the tokens of each clip."""
    if reach == "heads":
        towards = replacements.heads[block].flatten()
    else:
        towards = replacements.mlp[block] if reach == "mlp" else replacements.attention(encoder, block)
    assert x.grad is not None
    return (x.grad * (x.detach() - towards)).reshape(clips, -1, x.shape[-1]).sum(1)
