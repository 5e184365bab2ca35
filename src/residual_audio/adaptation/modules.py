"""Which layers of a model hold the places of an adapter, by name: what our adapters and PEFT's have in common.

A place changes the *input* of its layers, head by head, or their *output* as a whole. Names are those of ``encoder.module``; a model
around it (a whole Whisper around its encoder) has them with a beginning of its own.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from ..models import BlockSite, Encoder
from ..models.readout import MlpReadout
from .select import Place
from .validate import AdapterError


def mlp_layer(encoder: Encoder, site: BlockSite) -> str:
    """The layer that writes what a block's MLP writes: the last linear one of it, or the MLP itself where that is one."""
    inside = [name for name, part in encoder.module.get_submodule(site.mlp).named_modules() if isinstance(part, nn.Linear)][-1]
    return f"{site.mlp}.{inside}" if inside else site.mlp


def embedding_layer(encoder: Encoder) -> str | None:
    """The layer whose output is the embedding, where there is one."""
    readout = encoder.readout
    return readout.second if type(readout) is MlpReadout else None


def modules_of(place: Place, encoder: Encoder) -> list[str]:
    """The layers of a place, one per block; none for the embedding of an encoder that ends in a norm."""
    if place.kind == "embedding":
        layer = embedding_layer(encoder)
        return [] if layer is None else [layer]
    sites = {site.key: site for site in encoder.sites}
    if place.kind == "mlps":
        return [mlp_layer(encoder, sites[block]) for block in place.blocks]
    return [sites[block].projection for block in place.blocks]


def side_of(kind: str) -> str:
    """What of its layers a place changes."""
    return "heads" if kind == "heads" else "writes"


def with_blocks(place: Any, encoder: Encoder, where: object) -> Any:
    """A place as adapters have it; one that PEFT wrote names its layers and their side, and gets kind and blocks here."""
    if not isinstance(place, dict) or "side" not in place or "blocks" in place or not isinstance(place.get("modules"), list):
        return place
    if place["side"] == "heads":
        known: dict[str, Place] = {site.projection: Place("heads", (site.key,)) for site in encoder.sites}
    else:
        known = {site.projection: Place("blocks", (site.key,)) for site in encoder.sites}
        known |= {mlp_layer(encoder, site): Place("mlps", (site.key,)) for site in encoder.sites}
        if (last := embedding_layer(encoder)) is not None:
            known[last] = Place("embedding")
    found = []
    for module in place["modules"]:
        match = [at for name, at in known.items() if same_layer(str(module), name)]
        if len(match) != 1:
            raise AdapterError(f"{where}: it changes {module}, where {encoder.name} has no {place['side']}")
        found += match
    return {**place, "kind": found[0].kind, "blocks": [list(block) for at in found for block in at.blocks]}


def same_layer(module: str, name: str) -> bool:
    """Whether ``module`` of a model is the layer that an encoder calls ``name``."""
    return module == name or (module.endswith(f".{name}") and not in_text_tower(module))


# Beginnings of everything that belongs to a text side: never adapted.
TEXT = {"text_model", "text_projection", "text_branch", "caption_encoder", "decoder", "proj_out", "lm_head"}


def in_text_tower(module: str) -> bool:
    return not TEXT.isdisjoint(module.split("."))
