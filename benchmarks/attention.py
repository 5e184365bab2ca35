"""Attention in bfloat16 as batched products, against torch's fused call: forward alone, and with the gradient. Seconds of CPU.

python benchmarks/attention.py
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from common import alternated, machine
from torch import Tensor

from residual_audio.models.batched import MOST, attend
from residual_audio.models.precision import bf16_ratio


def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def batched(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attend(q, k, v, None, q.shape[-1] ** -0.5)


def there_and_back(way: Callable[..., Tensor], learned: list[Tensor], gradient: Tensor) -> None:
    torch.autograd.grad(way(*learned), learned, gradient)


def main() -> None:
    print(machine())
    if bf16_ratio() is None:
        print("no bf16 on this CPU: nothing to compare")
        return
    for tokens in (100, MOST, 2 * MOST):
        q, k, v, g = (torch.randn(max(1, 3200 // tokens), 6, tokens, 64, dtype=torch.bfloat16) for _ in range(4))
        ahead = alternated({way.__name__: partial(way, q, k, v) for way in (fused, batched)})
        learned = [x.requires_grad_() for x in (q, k, v)]
        back = alternated({way.__name__: partial(there_and_back, way, learned, g) for way in (fused, batched)})
        for what, seconds in (("forward alone", ahead), ("with the gradient", back)):
            ours, theirs = 1e3 * seconds["batched"].cpu, 1e3 * seconds["fused"].cpu
            print(f"{tokens:4} tokens, {what}: fused {theirs:.1f} ms, batched {ours:.1f} ms: {ours / theirs:.2f} ×")


if __name__ == "__main__":
    main()
