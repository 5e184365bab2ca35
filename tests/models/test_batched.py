"""Attention made of batched products, against torch's own in float64."""

import threading

import pytest
import torch
import torch.nn.functional as F

from residual_audio.models.batched import MOST, BatchedAttention
from residual_audio.models.precision import multiplying


def drawn(tokens, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(2, 3, tokens, 16, generator=generator, dtype=torch.float64) for _ in range(3)]


@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("masked", [False, True])
def test_values_and_gradients_are_those_of_the_fused_call(scale, masked):
    mask = torch.randn(7, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64) if masked else None
    outs, grads = [], []
    for batched in (False, True):
        q, k, v = (x.float().requires_grad_() if batched else x.requires_grad_() for x in drawn(7))
        kind = q.dtype
        with BatchedAttention() if batched else torch.enable_grad():
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else mask.to(kind), scale=scale)
        outs.append(out.detach().double())
        grads.append([g.double() for g in torch.autograd.grad(out.square().sum(), (q, k, v))])
    torch.testing.assert_close(outs[1], outs[0], rtol=1e-5, atol=1e-6)
    for ours, theirs in zip(grads[1], grads[0], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{"is_causal": True}, {"attn_mask": torch.ones(7, 7, dtype=torch.bool).tril()}])
def test_what_it_does_not_know_is_left_to_the_fused_call(options):
    q, k, v = (x.requires_grad_() for x in drawn(7))
    exact = F.scaled_dot_product_attention(q, k, v, **options)
    with BatchedAttention():
        assert torch.equal(F.scaled_dot_product_attention(q, k, v, **options), exact)


def test_long_clips_are_left_to_the_fused_call():
    q, k, v = (x.float().requires_grad_() for x in drawn(MOST + 1))
    exact = F.scaled_dot_product_attention(q, k, v)
    with BatchedAttention():
        assert torch.equal(F.scaled_dot_product_attention(q, k, v), exact)


def test_it_is_at_work_in_bf16_only_and_in_this_thread_only():
    """Seen in the type of what is summed: the fused call rounds a product of bfloat16 once, ours twice."""
    q, k, v = (x.bfloat16().requires_grad_() for x in drawn(200))
    fused = F.scaled_dot_product_attention(q, k, v)
    with multiplying("bf16", q.device):
        ours = F.scaled_dot_product_attention(q, k, v)
        with torch.no_grad():
            alone = F.scaled_dot_product_attention(q, k, v)
        elsewhere = []
        other = threading.Thread(target=lambda: elsewhere.append(F.scaled_dot_product_attention(q, k, v)))
        other.start()
        other.join()
    with multiplying("float32", q.device):
        off = F.scaled_dot_product_attention(q, k, v)
    assert not torch.equal(ours, fused)
    torch.testing.assert_close(ours.float(), fused.float(), rtol=0.05, atol=0.02)
    assert torch.equal(alone, fused), "without a gradient, the fused call is as fast"
    assert torch.equal(elsewhere[0], fused)
    assert torch.equal(off, fused)
