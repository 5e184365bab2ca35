"""Run an encoder with what was learned at work, without changing a weight."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from ..models import BlockSite, Encoder
from ..models.precision import narrowed
from ..models.recording import Block, Reach, record
from .gain import GainSet, MeanRule, ResiDual
from .select import REACH

Change = Callable[[Tensor], Tensor]
# Widths up to which all heads of a block are changed by one product (benchmarks/small_model.py).
ONE_PRODUCT = 256


def product(x: Tensor, matrix: Tensor, offset: Tensor) -> Tensor:
    """The affine map of every token. Where products run in bfloat16, only the change is multiplied so, and added to what it changes: next
    to the identity's one, it would be lost in a short mantissa."""
    # All tokens side by side in memory: for tokens that lie otherwise, torch copies a matrix for every window, here and in the next layer.
    flat = x.flatten(0, -2).contiguous()
    if not narrowed(x.device):
        return F.linear(flat.to(matrix.dtype), matrix, offset).view(x.shape)
    change = matrix - torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    return (flat.to(matrix.dtype) + F.linear(flat, change, offset)).view(x.shape)


def products(x: Float[Tensor, "*token h d"], matrix: Float[Tensor, "h d d"], offset: Float[Tensor, "h d"]) -> Float[Tensor, "*token h d"]:
    """The same for every head on its own."""
    if not narrowed(x.device):
        return torch.einsum("...hd,hed->...he", x.to(matrix.dtype), matrix) + offset
    change = matrix - torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return x.to(matrix.dtype) + torch.einsum("...hd,hed->...he", x, change) + offset


def head_change(gains: GainSet, heads: int, mean: MeanRule, values: Tensor) -> Change:
    """Concatenated head outputs → the same with the place's heads changed."""
    matrix = gains.matrix(values)
    offset = gains.offset(matrix, mean)
    chosen = list(gains.place.heads)
    # Narrow heads side by side are one product of a matrix with blocks on its diagonal: many more multiplications, and far fewer copies.
    whole = torch.block_diag(*matrix) if len(chosen) == heads and matrix[..., 0].numel() <= ONE_PRODUCT else None

    def change(z: Float[Tensor, "*token hd"]) -> Float[Tensor, "*token hd"]:
        if whole is not None:
            return product(z, whole, offset.flatten())
        split: Tensor = z.unflatten(-1, (heads, -1))
        if len(chosen) == heads:
            return products(split, matrix, offset).flatten(-2)
        out = split.to(matrix.dtype, copy=True)
        out[..., chosen, :] = products(split[..., chosen, :], matrix, offset)
        return out.flatten(-2)

    return change


def vector_change(gains: GainSet, mean: MeanRule, values: Tensor) -> Change:
    """A write or an embedding → the same, changed."""
    matrix = gains.matrix(values)
    offset = gains.offset(matrix, mean)[0]
    return lambda x: product(x, matrix[0], offset)


def _reaching(changes: dict[Block, Change]) -> Reach | None:
    """One reach that changes every block of ``changes``; None where there is none."""

    def act(site: BlockSite, x: Tensor) -> Tensor | None:
        change = changes.get(site.key)
        return None if change is None else change(x)

    return act if changes else None


@contextmanager
def attached(encoder: Encoder, residual: ResiDual, values: Sequence[Tensor] | None = None) -> Iterator[None]:
    """Inside, ``encoder.encode`` and ``encoder.resume`` give what the adapted model gives.

    ``values`` take the place of the stored ones, so that a gradient can reach them. The weights are not touched.
    """
    at_work = [s.values for s in residual.sets] if values is None else list(values)
    by_reach: dict[str, dict[Block, Change]] = {"heads": {}, "write": {}, "mlp": {}}
    final: Change | None = None
    count = {site.key: site.heads for site in encoder.sites}
    for one, numbers in zip(residual.sets, at_work, strict=True):
        if one.place.kind == "embedding":
            final = vector_change(one, residual.mean, numbers)
        elif one.place.kind == "heads":
            by_reach["heads"][one.place.blocks[0]] = head_change(one, count[one.place.blocks[0]], residual.mean, numbers)
        else:
            by_reach[REACH[one.place.kind]] |= dict.fromkeys(one.place.blocks, vector_change(one, residual.mean, numbers))
    with ExitStack() as stack:
        for reach, changes in by_reach.items():
            # Only the changed blocks are hooked: a hook costs time in every block that has one.
            sites = tuple(s for s in encoder.sites if s.key in changes)
            act = {reach: _reaching(changes)}
            stack.enter_context(
                record(encoder, heads=act.get("heads"), write=act.get("write"), mlp=act.get("mlp"), sites=sites, silent_ok=True)
            )
        if final is not None:
            stack.enter_context(encoder.readout.changed(encoder, final))
        yield
