"""fold = hooked, for every form and kind of place, on every layout; and what cannot be folded says so."""

import pytest
import torch
from transformers import ClapModel

from residual_audio.adaptation.attach import attached
from residual_audio.adaptation.fold import FoldError, fold
from residual_audio.adaptation.forms import FORMS
from residual_audio.models import load_encoder
from residual_audio.models.recording import record
from tests.helpers.gains import made_up
from tests.helpers.layouts import DISTINCT, clip_files, first_windows, open_layout

SELECTIONS = ["heads", "S0 heads", "blocks", "stages", "mlps", "embedding", "heads mlps blocks", "heads embedding"]


@pytest.fixture(scope="module", params=DISTINCT)
def encoder(request):
    return open_layout(request.param, request)


@pytest.fixture(scope="module")
def batch(encoder, request):
    return first_windows(encoder, clip_files(encoder, request))


def outputs(encoder, batch, residual=None):
    features = batch[0].to(encoder.dtype)
    with torch.inference_mode():
        if residual is None:
            return encoder.encode(features, batch[1])
        with attached(encoder, residual.to(encoder.device, encoder.dtype)):
            return encoder.encode(features, batch[1])


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("mean", ["keep", "drop"])
def test_folding_equals_running(encoder, batch, selection, mean):
    residual = made_up(encoder, selection, mean)
    if "embedding" in selection and not encoder.readout.folds:
        with pytest.raises(FoldError, match="ends in a norm"):
            fold(encoder, residual)
        return
    plain, live = outputs(encoder, batch), outputs(encoder, batch, residual)
    folded = fold(encoder, residual)
    scale = live.abs().max()
    assert (live - plain).abs().max() > 1e-2 * scale, "the gains do nothing, so the test proves nothing"
    assert (outputs(folded, batch) - live).abs().max() < 1e-5 * max(1.0, scale)
    assert torch.equal(outputs(encoder, batch), plain), "the encoder that was given has changed"
    before, after = encoder.module.state_dict(), folded.module.state_dict()
    assert {k: v.shape for k, v in before.items()} == {k: v.shape for k, v in after.items()}


@pytest.mark.parametrize("selection", ["heads", "blocks", "stages", "mlps", "embedding"])
def test_folding_is_exact_in_float64(encoder, batch, selection):
    if selection == "embedding" and not encoder.readout.folds:
        pytest.skip("an encoder that ends in a norm has no linear layer for it; refused above")
    encoder.module.to(torch.float64)
    try:
        residual = made_up(encoder, selection, "keep", kept=3)
        live = outputs(encoder, batch, residual)
        assert (outputs(fold(encoder, residual), batch) - live).abs().max() < 1e-10 * max(1.0, live.abs().max())
    finally:
        encoder.module.to(torch.float32)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("truncated", [False, True])
def test_every_form_folds(encoder, batch, form, truncated):
    """Inside three axes, the others passed or dropped, the mean dropped; also at a part of its strength, where it is the way there."""
    residual = made_up(encoder, "heads mlps", "drop", kept=3, form=form, truncated=truncated)
    plain, live = outputs(encoder, batch), outputs(encoder, batch, residual)
    scale = max(1.0, live.abs().max())
    assert (live - plain).abs().max() > 1e-3 * live.abs().max(), "it does nothing, so the test proves nothing"
    folded = fold(encoder, residual)
    assert (outputs(folded, batch) - live).abs().max() < 1e-5 * scale
    half = fold(encoder, residual.scaled(0.5))
    assert (outputs(half, batch) - outputs(encoder, batch, residual.scaled(0.5))).abs().max() < 1e-5 * scale
    between = zip(encoder.module.parameters(), folded.module.parameters(), half.module.parameters(), strict=True)
    assert max(((a + b) / 2 - c).abs().max().item() for a, b, c in between) < 1e-5, "the weights are not half way"


@pytest.mark.parametrize("form", FORMS)
def test_neutral_values_are_the_identity(encoder, batch, form):
    residual = made_up(encoder, "heads mlps blocks embedding", "keep", form=form)
    neutral = residual.with_values([torch.full_like(s.values, FORMS[form].neutral) for s in residual.sets])
    for nothing in (neutral, residual.scaled(0.0)):
        assert (outputs(encoder, batch, nothing) - outputs(encoder, batch)).abs().max() < 1e-6


def test_a_gain_moves_only_its_own_axis(encoder, batch):
    """Of the head it belongs to; heads of the same block are untouched."""
    residual = made_up(encoder, "S0B0 heads", "keep")
    gains = residual.sets[0]
    gain = torch.ones_like(gains.values)
    head = len(gain) - 1
    gain[head, 2] = 3.0
    changed = residual.with_values([gain])
    seen = []
    layer = encoder.module.get_submodule(encoder.sites[0].projection)
    for active in (residual.with_values([torch.ones_like(gain)]), changed):
        with torch.inference_mode(), attached(encoder, active.to(encoder.device, encoder.dtype)):
            handle = layer.register_forward_hook(lambda m, args, out: seen.append(args[0].double().unflatten(-1, (len(gain), -1))))
            encoder.encode(*batch)
            handle.remove()
    difference = seen[1] - seen[0]
    along = torch.einsum("...hd,had->...ha", difference, gains.axes)
    along[..., head, 2] = 0
    assert along.abs().max() < 1e-5
    assert difference[..., head, :].abs().max() > 1e-3


def test_gradient_reaches_gains_only(encoder, batch):
    for parameter in encoder.module.parameters():
        parameter.requires_grad_(False)
    residual = made_up(encoder, "heads mlps", "keep").to(encoder.device, encoder.dtype)
    gains = [s.values.clone().requires_grad_() for s in residual.sets]
    with attached(encoder, residual, gains):
        encoder.encode(*batch).square().sum().backward()
    assert all(g.grad is not None and g.grad.abs().max() > 0 for g in gains)
    assert all(p.grad is None for p in encoder.module.parameters())


def test_resume_is_adapted_too(encoder, batch):
    residual = made_up(encoder, "mlps heads embedding", "drop").to(encoder.device, encoder.dtype)
    entries = []
    with torch.inference_mode(), attached(encoder, residual):
        with record(encoder, entry=lambda site, x: entries.append(x)):
            whole = encoder.encode(*batch)
        torch.testing.assert_close(encoder.resume(entries[1], 1), whole, rtol=1e-4, atol=1e-5)


def test_folding_under_inference_mode_gives_ordinary_weights(encoder, batch):
    with torch.inference_mode():
        folded = fold(encoder, made_up(encoder, "heads", "keep"))
        folded.encode(*batch)
    assert not any(p.is_inference() for p in folded.module.parameters())


def test_nothing_is_left_after_an_error(encoder, batch):
    before = outputs(encoder, batch)
    with pytest.raises(ZeroDivisionError), attached(encoder, made_up(encoder, "heads embedding", "keep")):
        raise ZeroDivisionError
    assert torch.equal(outputs(encoder, batch), before)


@pytest.mark.parametrize("layout", ["msclap_path", "clip_dir"])
def test_a_zero_gain_with_nowhere_to_go_is_refused(layout, request):
    encoder = open_layout(layout, request)
    residual = made_up(encoder, "embedding", "keep")
    residual = residual.with_values([torch.zeros_like(residual.sets[0].values)])
    with pytest.raises(FoldError, match="no bias"):
        fold(encoder, residual)


def test_the_folded_model_loads_without_this_package(laion_dir, tmp_path, sound_files):
    encoder = load_encoder(laion_dir)
    residual = made_up(encoder, "heads", "keep")
    folded = fold(encoder, residual)
    folded.module.save_pretrained(tmp_path)
    plain = ClapModel.from_pretrained(tmp_path).eval()
    features = encoder.prepare(sound_files[0]).features
    with torch.inference_mode():
        theirs = plain.get_audio_features(input_features=features, is_longer=torch.zeros(1, 1, dtype=torch.bool)).pooler_output
        ours = torch.nn.functional.normalize(outputs(encoder, (features, torch.zeros(1, dtype=torch.bool)), residual), dim=-1)
    torch.testing.assert_close(torch.nn.functional.normalize(theirs, dim=-1), ours, rtol=1e-4, atol=1e-5)
