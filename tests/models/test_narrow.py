"""Products in bf16, everything that sums in float32: as near to float32 as torch's own autocast, for every layout of checkpoints."""

import pytest
import torch

from residual_audio.adaptation.fold import fold
from residual_audio.extraction.capture import Capture
from residual_audio.models import load_encoder
from residual_audio.models.copies import copied, twin
from residual_audio.models.narrow import NarrowLinear
from residual_audio.models.precision import bf16_ratio
from residual_audio.models.recording import record
from residual_audio.options import OptionError
from tests.helpers.gains import made_up
from tests.helpers.layouts import ALL, clip_files, first_windows, open_layout

EVERYTHING = ("head", "mlp", "block", "stage", "embedding", "moments", "direct", "attention")


@pytest.fixture(autouse=True)
def able():
    if bf16_ratio() is None:
        pytest.skip("this CPU has no bf16")


def off(x, reference):
    """Relative error."""
    return float((x.double() - reference.double()).norm() / reference.double().norm())


@pytest.mark.parametrize("layout", ALL)
def test_every_layout_is_as_near_as_autocast(layout, request):
    """The oracle is torch's autocast of the float32 model, which rounds the stream as well."""
    exact, narrow = open_layout(layout, request), open_layout(layout, request, precision="bf16")
    assert (exact.precision, narrow.precision) == ("float32", "bf16")
    features, longer = first_windows(exact, clip_files(exact, request))
    seen = []
    with torch.inference_mode():
        plain = exact.encode(features, longer)
        with torch.autocast("cpu", torch.bfloat16):
            rounded = exact.encode(features, longer)
        with record(narrow, entry=lambda site, x: seen.append(x.dtype)):
            ours = narrow.encode(features, longer)
        assert ours.dtype == torch.float32
        assert set(seen) == {torch.float32}, "the stream is rounded"
        assert 0 < off(ours, plain) <= 1.5 * off(rounded, plain) + 1e-3
        if exact.has_text:
            assert torch.equal(narrow.embed_text(["a bell", "rain"]), exact.embed_text(["a bell", "rain"]))
    assert all(torch.equal(v, narrow.module.state_dict()[k]) for k, v in exact.module.state_dict().items())


@pytest.mark.parametrize("layout", ["tiny", "msclap_path", "whisper_dir", "vit_dir"])
def test_what_is_recorded_is_float32_and_adds_up(layout, request):
    exact, narrow = open_layout(layout, request), open_layout(layout, request, precision="bf16")
    features, longer = first_windows(exact, clip_files(exact, request), 3)
    plain, ours = (Capture(e, EVERYTHING).run(features, longer) for e in (exact, narrow))
    for key, value in ours.arrays.items():
        assert value.dtype == torch.float32, key
        finite = plain.arrays[key].isfinite()
        if key != "direct.ratio":  # a step at zero: what is near it falls to either side
            assert off(value[finite], plain.arrays[key][finite]) < 0.05, key
    assert off(ours.moments.second, plain.moments.second) < 0.02
    assert ours.moments.second.dtype == torch.float64
    total = ours.arrays["direct.units"].sum(1) + ours.arrays["direct.constant"]
    assert off(total, ours.arrays["embedding.pooled"]) < 0.02


def test_attention_weights_are_formed_in_float32(request):
    """Each row of every block's weights sums to one, to float32's rounding."""
    for layout in ("tiny", "whisper_dir"):
        narrow = open_layout(layout, request, precision="bf16")
        features, longer = first_windows(narrow, clip_files(narrow, request))
        kinds = {name: m.wide for name, m in narrow.module.named_modules() if isinstance(m, NarrowLinear)}

        def sums(site, weights):
            assert weights.dtype == torch.float32
            assert (weights.sum(-1) - 1).abs().max() < 1e-5

        with torch.inference_mode(), record(narrow, weights=sums):
            narrow.encode(features, longer)
        assert kinds == {name: m.wide for name, m in narrow.module.named_modules() if isinstance(m, NarrowLinear)}


def test_weights_that_change_are_narrowed_anew_and_copies_are_their_own(sound_files):
    """What was folded is what was attached, in bf16 too; the original and its copies do not share what was prepared."""
    exact, narrow = load_encoder("tiny"), load_encoder("tiny", precision="bf16")
    before = narrow.embed(sound_files[:3])
    assert torch.equal(copied(narrow).embed(sound_files[:3]), before)
    assert torch.equal(twin(narrow).embed(sound_files[:3]), before)
    residual = made_up(exact, "S3 heads mlps", "keep")
    folded, expected = fold(narrow, residual), fold(exact, residual).embed(sound_files[:3])
    assert folded.precision == "bf16"
    assert off(folded.embed(sound_files[:3]), expected) < 0.05
    assert off(folded.embed(sound_files[:3]), before) > 0.05
    assert torch.equal(narrow.embed(sound_files[:3]), before)
    with torch.no_grad():
        narrow.linear(narrow.sites[-1].projection).weight.mul_(2.0)
    assert off(narrow.embed(sound_files[:3]), before) > 1e-3


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_weights_that_change_behind_torchs_back_are_seen(precision, sound_files):
    """peft merges through ``.data``, which torch does not count: the fused Q, K, V of float32 and the copies of bf16 must be made anew."""
    encoder = load_encoder("tiny", precision=precision)
    features, longer = first_windows(encoder, sound_files[:2])
    attention = encoder.module.get_submodule(f"{encoder.sites[-1].attention}.self")
    with torch.inference_mode():
        before = encoder.encode(features, longer)
    for layer in (attention.query, attention.value):
        layer.weight.data += 0.2 * torch.randn(layer.weight.shape, generator=torch.Generator().manual_seed(0))
    fresh = copied(encoder)
    with torch.inference_mode():
        after, expected = encoder.encode(features, longer), fresh.encode(features, longer)
    assert off(after, before) > 0.01
    assert torch.equal(after, expected)


def test_gradients_go_through(sound_files):
    exact, narrow = load_encoder("tiny"), load_encoder("tiny", precision="bf16")
    features, longer = first_windows(exact, sound_files)
    found = []
    for encoder in (exact, narrow):
        weight = encoder.linear(encoder.sites[3].projection).weight
        (gradient,) = torch.autograd.grad(encoder.encode(features, longer)[:, 0].sum(), weight)
        found.append(gradient)
    assert found[1].dtype == torch.float32
    assert torch.cosine_similarity(*(g.flatten() for g in found), dim=0) > 0.99


def test_an_unknown_precision_is_refused():
    with pytest.raises(OptionError, match=r"--precision: unknown precision 'fp8'; one of float32, bf16, auto"):
        load_encoder("tiny", precision="fp8")
