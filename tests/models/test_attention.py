"""Attention weights against transformers' own, and how far heads look against loops over tokens."""

import numpy as np
import pytest
import torch
from scipy import stats

from residual_audio.decomposition.layout import together
from residual_audio.models import load_encoder
from residual_audio.models.attention import Reader, revealed
from residual_audio.models.places import token_places, window_places
from residual_audio.models.recording import Keep, record, recorded
from residual_audio.spectra import Sketch
from tests.helpers.layouts import noise


@pytest.fixture(scope="module")
def tiny():
    return load_encoder("tiny")


def weights_of(encoder, x):
    seen = {}
    with torch.inference_mode(), record(encoder, weights=lambda site, a: seen.__setitem__(site.key, a)):
        encoder.encode(x, torch.zeros(len(x), dtype=torch.bool))
    return seen


def test_weights_equal_transformers_in_htsat(tiny):
    """transformers returns those of the last block of every stage."""
    x = noise(tiny, 2)
    seen = weights_of(tiny, x)
    with torch.inference_mode():
        theirs = tiny.module.audio_model(x, is_longer=torch.zeros(2, 1, dtype=torch.bool), output_attentions=True).attentions
    assert len(theirs) == 4
    for stage, own in enumerate(theirs):
        last = max(b for s, b in seen if s == stage)
        torch.testing.assert_close(seen[stage, last], own, atol=1e-6, rtol=1e-5)


def test_weights_equal_transformers_in_whisper(whisper_dir):
    encoder = load_encoder(whisper_dir, seconds=1.0)
    before = encoder.module.config._attn_implementation
    x = noise(encoder, 2)
    seen = weights_of(encoder, x)
    assert encoder.module.config._attn_implementation == before != "eager"
    encoder.module.set_attn_implementation("eager")
    with torch.inference_mode():
        theirs = encoder.module(x[:, 0].transpose(1, 2), output_attentions=True).attentions
    for block, own in enumerate(theirs):
        torch.testing.assert_close(seen[0, block], own, atol=1e-6, rtol=1e-5)


def test_fused_attention_is_off_for_the_recording_only(tiny):
    x, attention = noise(tiny, 2), tiny.module.get_submodule(tiny.sites[0].attention)
    fused = attention.self.forward
    with torch.inference_mode():
        plain = recorded(tiny, x, torch.zeros(2, dtype=torch.bool), Keep(heads="mean"))
        keep = Keep(heads="mean", attention={s.key: Reader(tiny, s, 256) for s in tiny.sites})
        shown = recorded(tiny, x, torch.zeros(2, dtype=torch.bool), keep)
    torch.testing.assert_close(shown.embedding, plain.embedding, atol=1e-4, rtol=1e-4)
    assert attention.self.forward == fused
    assert not attention._forward_pre_hooks
    with pytest.raises(KeyError), revealed(tiny, tiny.sites):
        raise KeyError
    assert not attention._forward_pre_hooks


def test_tokens_that_were_rolled_over_an_edge_are_not_looked_at(tiny):
    seen = weights_of(tiny, noise(tiny, 1))
    for site in tiny.sites:
        may = together(tiny.stages[site.stage].grid, site.window, site.shift)
        assert bool(may.all()) == (site.shift == 0)
        looked = seen[site.key].amax(1)
        assert float(looked[~may].max() if (~may).any() else 0) < 1e-20
        assert float(looked[may].min()) > 1e-20


def test_places_unfold_the_strips(tiny):
    """The last stage of tiny is 4 × 4: two strips of two frequencies and four times each."""
    places = token_places(tiny, 3)
    assert places[:, 0].tolist() == [0, 0, 0, 0, 32, 32, 32, 32] * 2
    assert places[:, 1].tolist() == [0, 0.5, 1, 1.5] * 2 + [2, 2.5, 3, 3.5] * 2


def test_summary_tokens_have_no_place(ast_dir):
    encoder = load_encoder(ast_dir)
    rows, columns = encoder.stages[0].lattice
    places = token_places(encoder, 0)
    assert places[:2].isnan().all()
    assert places[2:].isfinite().all()
    assert places[2 + columns].tolist() == pytest.approx([encoder.policy.mel.mels / rows, 0.0]), "frequency by frequency"


@pytest.mark.parametrize("block", [1, 4])
def test_reach_and_mean_equal_loops_over_tokens(tiny, block):
    site = tiny.sites[block]
    a = weights_of(tiny, noise(tiny, 1))[site.key].double()
    reader = Reader(tiny, site, 10_000)
    gaze = reader.read(a)
    places = window_places(tiny, site).double().numpy()
    windows, heads, tokens, _ = a.shape
    for head in (0, heads - 1):
        entropy = np.mean([stats.entropy(a[w, head, q].numpy()) for w in range(windows) for q in range(tokens)])
        far = {axis: np.mean([sum(float(a[w, head, q, k]) * abs(places[w, q, axis] - places[w, k, axis]) for k in range(tokens))
                              for w in range(windows) for q in range(tokens)]) for axis in (0, 1)}  # fmt: skip
        np.testing.assert_allclose(gaze.reach[0, head, :3], [entropy, far[1], far[0]], rtol=1e-5)
    mean = a.mean(0).flatten(1)
    torch.testing.assert_close(gaze.sketch[0], Sketch.of(tokens**2, tokens**2)(mean))
    may = together(tiny.stages[site.stage].grid, site.window, site.shift).double()
    even = reader.read((may / may.sum(-1, keepdim=True))[:, None].expand(-1, heads, -1, -1))
    np.testing.assert_allclose(even.reach[..., 3:], 1, rtol=1e-5)


def test_a_head_that_looks_at_itself_has_no_reach(whisper_dir):
    encoder = load_encoder(whisper_dir, seconds=1.0)
    reader, tokens = Reader(encoder, encoder.sites[0], 64), encoder.stages[0].grid[1]
    reach = reader.read(torch.eye(tokens).expand(2, 4, -1, -1)).reach
    assert (reach[..., :2] == 0).all()
    assert reach[..., 2].isnan().all(), "a token of Whisper covers all frequencies"
