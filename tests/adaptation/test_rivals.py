"""Rivals that fold: what is attached is what is folded, on every layout that has a place for them."""

import numpy as np
import pytest
import torch
from torch import nn

from residual_audio.adaptation.methods.film import stage_ends
from residual_audio.adaptation.methods.ia3 import ia3_learner
from residual_audio.adaptation.methods.lora import lora_learner
from residual_audio.adaptation.methods.mel import band_norm
from residual_audio.adaptation.modulation import ModulationLearner, fold_modulation
from residual_audio.adaptation.streams import cache_streams
from residual_audio.adaptation.weights import between, merged
from residual_audio.models.folding import FoldError
from residual_audio.options import OptionError
from tests.helpers.layouts import clip_files, open_layout

ROWS = np.arange(2)


@pytest.fixture(scope="module", params=["laion_dir", "msclap_path", "whisper_dir", "clip_dir"])
def inputs(request):
    encoder = open_layout(request.param, request)
    return cache_streams(encoder, clip_files(encoder, request)[:2], None)


def shaken(learner, size=0.3):
    """Its parameters away from where they start."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in learner.parameters:
            p.add_(size * torch.randn(p.shape, generator=generator))
    return learner


def same(inputs, folded, live):
    plain = inputs.embed(ROWS)
    assert (live - plain).abs().max() > 1e-3 * plain.abs().max(), "it does nothing, so the test proves nothing"
    assert (inputs.embed(ROWS, encoder=folded) - live).abs().max() < 1e-5 * max(1.0, float(live.abs().max()))
    shapes = [{k: v.shape for k, v in e.module.state_dict().items()} for e in (inputs.encoder, folded)]
    assert shapes[0] == shapes[1]


def test_film_folds_at_the_end_of_every_stage(inputs):
    encoder = inputs.encoder
    taps = stage_ends(encoder, set(range(len(encoder.stages))))
    assert len(taps) == len(encoder.stages)
    learner = shaken(ModulationLearner(taps, inputs))
    assert torch.equal(ModulationLearner(taps, inputs).embed(ROWS), inputs.embed(ROWS)), "it does not start as the model"
    same(inputs, fold_modulation(encoder, taps, learner.parameters), learner.embed(ROWS))


def test_film_is_a_scale_and_a_shift_of_what_the_stages_give(inputs):
    """By hand, for the last stage: the norm's output, scaled and shifted."""
    encoder = inputs.encoder
    tap = stage_ends(encoder, {len(encoder.stages) - 1})[0]
    learner, norm, seen = shaken(ModulationLearner([tap], inputs)), encoder.module.get_submodule(tap.layer), []
    handle = norm.register_forward_hook(lambda module, args, out: seen.append(out * learner.parameters[0] + learner.parameters[1]))
    try:
        inputs.embed(ROWS)
    finally:
        handle.remove()
    own = []
    with learner.ready(encoder):
        handle = norm.register_forward_hook(lambda module, args, out: own.append(out))
        inputs.embed(ROWS)
        handle.remove()
    torch.testing.assert_close(own[0], seen[0])
    assert not norm._forward_hooks, "a hook was left behind"


def test_a_scale_of_zero_before_a_merge_is_refused(request):
    encoder = open_layout("laion_dir", request)
    taps = stage_ends(encoder, {0})
    with pytest.raises(FoldError, match="nowhere to go"):
        fold_modulation(encoder, taps, [torch.zeros(taps[0].channels), torch.ones(taps[0].channels)])


def test_mel_bands_fold_into_the_batch_norm(inputs):
    encoder = inputs.encoder
    if not any(isinstance(m, nn.BatchNorm2d) for m in encoder.module.modules()):
        with pytest.raises(OptionError, match="no batch norm over mel bands"):
            band_norm(encoder)
        return
    taps = [band_norm(encoder)]
    assert taps[0].channels == encoder.policy.mel.mels
    learner = shaken(ModulationLearner(taps, inputs))
    same(inputs, fold_modulation(encoder, taps, learner.parameters), learner.embed(ROWS))


@pytest.mark.parametrize("make", [lambda s, b: ia3_learner(s, b, 0), lambda s, b: lora_learner(s, b, 2, 0)], ids=["ia3", "lora"])
def test_pefts_layers_merge(inputs, make):
    """Also half way: the weights of the model as it was and of the merged one, averaged."""
    encoder = inputs.encoder
    last = encoder.sites[-1]
    learner = make(inputs, {last.key})
    torch.testing.assert_close(learner.embed(ROWS), inputs.embed(ROWS), rtol=1e-4, atol=1e-5)
    live = shaken(learner).embed(ROWS)
    folded = merged(encoder, learner.encoder)
    same(inputs, folded, live)
    assert torch.equal(learner.embed(ROWS), live), "merging has changed what was learned"
    half = between(encoder, folded, 0.5)
    weights = (e.module.parameters() for e in (encoder, half, folded))
    assert all(torch.allclose((a + c) / 2, b, atol=1e-7) for a, b, c in zip(*weights, strict=True))


def test_ia3_scales_keys_values_and_hidden_units(inputs):
    """One factor per channel of the block's keys and values, and per input of the MLP's last layer."""
    encoder = inputs.encoder
    last = encoder.sites[-1]
    learner = ia3_learner(inputs, {last.key}, 0)
    hidden = [m for m in encoder.module.get_submodule(last.mlp).modules() if isinstance(m, nn.Linear)][-1].in_features
    assert sum(p.numel() for p in learner.parameters) == 2 * encoder.units.d_model[-1] + hidden
