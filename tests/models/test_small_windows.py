"""Attention in small windows against transformers' own, and its gradient against torch's and against finite differences."""

import pytest
import torch
from torch.autograd import gradcheck
from transformers.models.clap.modeling_clap import ClapAudioSelfAttention

from residual_audio.models import load_encoder, windows
from residual_audio.models.windows import SmallWindows


@pytest.fixture(scope="module")
def tiny():
    encoder = load_encoder("tiny")
    encoder.module.requires_grad_(False)
    return encoder


def through(attention, x, mask, towards):
    x = x.clone().requires_grad_()
    mixed = attention(x, mask)[0]
    return mixed.detach(), torch.autograd.grad(mixed, x, towards)[0]


@pytest.mark.parametrize("masked", [False, True])
def test_outputs_and_gradients_are_transformers(tiny, masked, monkeypatch):
    ran = []
    monkeypatch.setattr(SmallWindows, "apply", lambda *args, of=SmallWindows.apply: ran.append(1) or of(*args))
    for site in tiny.sites:
        attention = tiny.module.get_submodule(site.attention).self
        generator = torch.Generator().manual_seed(site.block)
        x, towards = torch.randn(2, 12, 16, attention.all_head_size, generator=generator)
        mask = -100.0 * torch.randint(0, 2, (4, 16, 16), generator=generator) if masked else None
        ours = through(attention, x, mask, towards)
        theirs = through(lambda *args, a=attention: ClapAudioSelfAttention.forward(a, *args), x, mask, towards)
        for found, own in zip(ours, theirs, strict=True):
            torch.testing.assert_close(found, own, rtol=0, atol=1e-5 * float(own.abs().max()))
    assert len(ran) == len(tiny.sites)


def test_the_gradient_is_that_of_finite_differences():
    generator = torch.Generator().manual_seed(0)
    qkv = torch.randn(4, 5, 3 * 6, generator=generator, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(4, 5, 5, generator=generator, dtype=torch.float64)
    assert gradcheck(lambda x: SmallWindows.apply(x, bias, 2), (qkv,))


def test_a_narrower_precision_is_only_that_of_what_goes_in_and_out():
    generator = torch.Generator().manual_seed(0)
    qkv, bias = torch.randn(4, 16, 48, generator=generator).bfloat16(), torch.randn(2, 16, 16, generator=generator)
    towards = torch.randn(4, 16, 16, generator=generator).bfloat16()
    found = []
    for dtype, autocast in ((torch.bfloat16, True), (torch.float32, False)):
        x = qkv.to(dtype).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            mixed = SmallWindows.apply(x, bias, 2)
        assert mixed.dtype == dtype
        found.append((mixed.detach().bfloat16(), torch.autograd.grad(mixed, x, towards.to(dtype))[0].bfloat16()))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


def test_the_whole_network_has_the_same_gradient_either_way(tiny, monkeypatch):
    stream = torch.randn(2, 1024, tiny.units.d_model[0], generator=torch.Generator().manual_seed(0)).requires_grad_()
    small = torch.autograd.grad(tiny.resume(stream, 0).square().sum(), stream)[0]
    monkeypatch.setattr(windows, "SMALL", 0)
    fused = torch.autograd.grad(tiny.resume(stream, 0).square().sum(), stream)[0]
    assert not torch.equal(small, fused), "both ran the same way, so the test proves nothing"
    torch.testing.assert_close(small, fused, rtol=0, atol=1e-4 * float(fused.abs().max()))


def test_nothing_changes_without_a_gradient(tiny, monkeypatch):
    monkeypatch.setattr(SmallWindows, "apply", lambda *args: pytest.fail("batched products without a gradient"))
    with torch.no_grad():
        tiny.resume(torch.zeros(1, 1024, tiny.units.d_model[0]), 0)


def test_one_window_leaves_the_bias_as_it_is():
    """The bias of as many windows as there are is not repeated, and what is not repeated must not be written to."""
    generator = torch.Generator().manual_seed(0)
    bias, qkv = torch.randn(2, 16, 16, generator=generator), torch.randn(1, 16, 48, generator=generator, requires_grad=True)
    before = bias.clone()
    first = SmallWindows.apply(qkv, bias, 2)
    assert torch.equal(bias, before)
    assert torch.equal(SmallWindows.apply(qkv, bias, 2), first)


def test_a_step_of_one_clip_changes_nothing_but_what_is_learned(tiny):
    import numpy as np

    from residual_audio.adaptation.gain import ResiDual, gain_set
    from residual_audio.adaptation.learner import GainLearner
    from residual_audio.adaptation.select import choose_places
    from residual_audio.adaptation.streams import Streams, place_bases

    rng, block = np.random.default_rng(0), len(tiny.sites) - 2
    stage = tiny.stages[-1]
    values = rng.standard_normal((6, int(np.prod(stage.grid)), tiny.units.d_model[-1])).astype(np.float32)
    streams = Streams(tiny, block, values, np.zeros(6, dtype=bool), np.arange(6), {})
    places = choose_places(tiny.units, "S3 heads")
    bases = place_bases(streams, np.arange(6), places, "token")
    learner = GainLearner(ResiDual(tuple(gain_set(p, b) for p, b in zip(places, bases, strict=True))), streams)
    before = learner.embed(np.arange(6))
    for row in range(3):
        learner.backward(torch.zeros_like(learner.forward(np.array([row]))))
    assert torch.equal(learner.embed(np.arange(6)), before)
