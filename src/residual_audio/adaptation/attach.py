"""Run an encoder with gains at work, without changing a weight."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from jaxtyping import Float
from torch import Tensor

from ..models import BlockSite, Encoder
from ..models.recording import record
from .gain import GainSet, MeanRule, ResiDual

REACH = {"heads": "heads", "blocks": "write", "stages": "write", "mlps": "mlp"}


def joint_is_last_linear(encoder: Encoder) -> bool:
    """Whether the embedding leaves a linear layer (LAION, CLIP); else final-embedding gains act on the pooled output before it."""
    return encoder.readout.joint in ("mlp", "linear")


def head_change(found: GainSet, heads: int, mean: MeanRule, gain: Tensor) -> Callable[[Tensor], Tensor]:
    """Concatenated head outputs → the same with the place's heads reweighted."""
    matrix = found.matrix(gain)
    offset = found.offset(matrix, mean)
    chosen = list(found.place.heads)

    def change(z: Float[Tensor, "*token hd"]) -> Float[Tensor, "*token hd"]:
        split = z.unflatten(-1, (heads, -1))
        if len(chosen) == heads:
            return (torch.einsum("...hd,hed->...he", split, matrix) + offset).flatten(-2)
        out = split.clone()
        out[..., chosen, :] = torch.einsum("...hd,hed->...he", split[..., chosen, :], matrix) + offset
        return out.flatten(-2)

    return change


def vector_change(found: GainSet, mean: MeanRule, gain: Tensor) -> Callable[[Tensor], Tensor]:
    """A write or an embedding → the same, reweighted."""
    matrix = found.matrix(gain)
    offset = found.offset(matrix, mean)[0]
    return lambda x: x @ matrix[0].mT + offset


@contextmanager
def attached(encoder: Encoder, residual: ResiDual, gains: Sequence[Tensor] | None = None) -> Iterator[None]:
    """Inside, ``encoder.encode`` and ``encoder.resume`` give what the adapted model gives.

    ``gains`` take the place of the stored ones, so that a gradient can reach them. The weights are not touched.
    """
    values = [s.gain for s in residual.sets] if gains is None else list(gains)
    by_reach: dict[str, dict[tuple[int, int], Callable[[Tensor], Tensor]]] = {"heads": {}, "write": {}, "mlp": {}}
    final: Callable[[Tensor], Tensor] | None = None
    count = {(s.stage, s.block): s.heads for s in encoder.sites}
    for found, gain in zip(residual.sets, values, strict=True):
        if found.place.form == "embedding":
            final = vector_change(found, residual.mean, gain)
        elif found.place.form == "heads":
            by_reach["heads"][found.place.blocks[0]] = head_change(found, count[found.place.blocks[0]], residual.mean, gain)
        else:
            change = vector_change(found, residual.mean, gain)
            by_reach[REACH[found.place.form]] |= dict.fromkeys(found.place.blocks, change)
    with ExitStack() as stack:
        for reach, changes in by_reach.items():
            if changes:
                sites = tuple(s for s in encoder.sites if (s.stage, s.block) in changes)

                def act(site: BlockSite, x: Tensor, changes=changes) -> Tensor:
                    return changes[site.stage, site.block](x)

                stack.enter_context(record(encoder, sites=sites, silent_ok=True, **{reach: act}))
        if final is not None:
            stack.enter_context(_final(encoder, final))
        yield


@contextmanager
def _final(encoder: Encoder, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Reweight the final embedding: the pooled output where a nonlinear projection follows it, else the embedding itself."""
    if encoder.readout.joint == "residual":
        layer = encoder.module.get_submodule(encoder.readout.linear1)
        handle = layer.register_forward_pre_hook(lambda module, args: (change(args[0]),))
        try:
            yield
        finally:
            handle.remove()
        return
    encode, read = encoder.encode, encoder.read
    encoder.encode = lambda *args: change(encode(*args))  # type: ignore[method-assign]
    encoder.read = lambda stream: change(read(stream))  # type: ignore[method-assign]
    try:
        yield
    finally:
        del encoder.encode, encoder.read
