"""Attention inside small windows while learning, as batched products.

Torch's fused attention treats every head of every window by itself. Where those are tiny, most of its time is overhead, above all on the
way back; one batched product over all of them takes half the time (benchmarks/small_model.py). The weights are kept for the way back,
so large windows, where they would fill the memory, are left to the fused form.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from .precision import unrounded

# Tokens of a window up to which batched products are faster.
SMALL = 16


class SmallWindows(torch.autograd.Function):
    """Outputs and gradients agree with the fused form's to rounding.

    Inside, tokens come last: sixteen of them fill a vector of the CPU, the numbers of a small head do not.
    """

    @staticmethod
    def forward(
        ctx: Any, qkv: Float[Tensor, "window token three_d"], bias: Float[Tensor, "repeated token token"], heads: int
    ) -> Float[Tensor, "window token d"]:  # fmt: skip
        """``bias``: of the heads of the first windows; it repeats over the others."""
        windows, tokens, width = qkv.shape
        d = width // (3 * heads)
        ctx.heads, ctx.scale = heads, d**-0.5
        apart = qkv.view(windows, tokens, 3, heads, d).permute(2, 0, 3, 4, 1)
        # Also of a narrower precision: float32's products are the faster ones at this size.
        q, k, v = apart.new_empty(apart.shape, dtype=unrounded(qkv)).copy_(apart).view(3, windows * heads, d, tokens)
        # Of each head [key, query].
        weights = bias.mT.expand(len(q) // len(bias), -1, -1, -1).reshape(-1, tokens, tokens)
        with torch.autocast(qkv.device.type, enabled=False):
            # Out of place: of as many windows as the bias has, the repeated bias is the bias itself.
            weights = torch.softmax(torch.baddbmm(weights, k.mT, q, alpha=ctx.scale), -2)
            mixed = torch.bmm(v, weights)
        ctx.dtype = qkv.dtype
        ctx.save_for_backward(q, k, v, weights)
        return mixed.view(windows, heads * d, tokens).mT.to(qkv.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Float[Tensor, "window token d"]) -> tuple[Tensor, None, None]:
        q, k, v, weights = ctx.saved_tensors
        windows, tokens, width = gradient.shape
        mixed = gradient.mT.to(v.dtype).reshape(v.shape)
        found = v.new_empty(3, *v.shape)
        torch.bmm(mixed, weights.mT, out=found[2])
        scores = torch.ops.aten._softmax_backward_data(torch.bmm(v.mT, mixed), weights, -2, weights.dtype)
        found[0].baddbmm_(k, scores, beta=0, alpha=ctx.scale)
        found[1].baddbmm_(q, scores.mT, beta=0, alpha=ctx.scale)
        together = found.view(3, windows, ctx.heads, -1, tokens).permute(1, 4, 0, 2, 3)
        return together.new_empty(together.shape, dtype=ctx.dtype).copy_(together).view(windows, tokens, 3 * width), None, None


def small_enough(qkv: Float[Tensor, "window token three_d"]) -> bool:
    """Whether batched products are the faster way: this is a step of learning, the windows are small, and this is a CPU."""
    return torch.is_grad_enabled() and qkv.shape[1] <= SMALL and qkv.device.type == "cpu"


def small_windows(
    qkv: Float[Tensor, "window token three_d"], bias: Float[Tensor, "repeated token token"], heads: int
) -> Float[Tensor, "window token d"]:
    """:class:`SmallWindows`, with its type."""
    mixed: Tensor = SmallWindows.apply(qkv, bias, heads)  # type: ignore[no-untyped-call]
    return mixed
