"""Attention as two batched products and a softmax.

On a CPU in bfloat16, the gradient of clips of few tokens takes a fraction of the fused call's time so, that of long ones more
(``benchmarks/attention.py``).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

# Tokens up to which it pays.
MOST = 256


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """The softmax in float32, whatever the products are in."""
    scores = scale * (q @ k.mT).float()
    if mask is not None:
        scores = scores + mask
    return scores.softmax(-1).to(v.dtype) @ v


class BatchedAttention(TorchFunctionMode):
    """Inside, and in this thread, ``scaled_dot_product_attention`` of few tokens is made of batched products where a gradient
    passes through it."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        named = kwargs or {}
        if func is F.scaled_dot_product_attention and len(args) == 3:
            q, k, v = args
            mask = named.get("attn_mask")
            plain = not (named.get("dropout_p") or named.get("is_causal") or named.get("enable_gqa"))
            added = mask is None or mask.dtype != torch.bool
            passed = torch.is_grad_enabled() and any(x.requires_grad for x in args)
            if plain and added and passed and k.shape[-2] <= MOST:
                return attend(q, k, v, mask, named.get("scale") or q.shape[-1] ** -0.5)
        return func(*args, **named)
