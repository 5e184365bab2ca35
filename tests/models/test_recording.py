"""Hooks are there inside the ``with``, and nowhere else."""

import numpy as np
import pytest
import torch

from residual_audio.extraction import RecordError, record
from residual_audio.models import load_encoder
from residual_audio.models.readings import end_mean, entry_means, mlp_means, pooled_heads, token_moments
from residual_audio.models.recording import Keep, recorded
from tests.helpers.layouts import noise

WAVE = np.random.default_rng(0).standard_normal(16000).astype(np.float32)


@pytest.fixture(scope="module")
def tiny():
    return load_encoder("tiny")


def hooks(encoder) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in encoder.module.modules())


def embed(encoder):
    return encoder.embed([WAVE], sample_rate=16000)


def test_every_site_is_seen_once_per_pass_and_nothing_stays(tiny):
    seen = []
    before = embed(tiny)
    with record(tiny, heads=lambda s, z: seen.append(("h", s.stage, s.block)), mlp=lambda s, m: seen.append(("m", s.stage, s.block))):
        assert torch.equal(embed(tiny), before)
    assert [x for x in seen if x[0] == "h"] == [("h", *b) for b in tiny.units.blocks]
    assert len(seen) == 24
    assert hooks(tiny) == 0


def test_nothing_stays_after_an_exception(tiny):
    def broken(site, z):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"), record(tiny, heads=broken):
        embed(tiny)
    assert hooks(tiny) == 0


def test_a_site_that_never_fired_is_an_error(tiny):
    with pytest.raises(RecordError, match="12 of 12 watched sites never fired"), record(tiny, heads=lambda s, z: None):
        pass
    assert hooks(tiny) == 0


def test_what_is_returned_takes_the_place_of_what_was_seen(tiny):
    """Zeroing one head equals zeroing its columns of the output projection."""
    site = tiny.sites[4]

    def without_head_3(s, z):
        z = z.clone()
        z.unflatten(-1, (s.heads, -1))[..., 3, :] = 0
        return z

    with record(tiny, heads=without_head_3, sites=(site,)):
        hooked = embed(tiny)
    d = tiny.units.d_head[site.stage]
    weight = tiny.module.get_submodule(site.projection).weight
    kept = weight.data.clone()
    weight.data[:, 3 * d : 4 * d] = 0
    edited = embed(tiny)
    weight.data.copy_(kept)
    assert (hooked - edited).abs().max() < 1e-6
    assert (hooked - embed(tiny)).abs().max() > 1e-6


def test_an_mlp_can_be_silenced(tiny):
    with record(tiny, mlp=lambda s, m: torch.zeros_like(m), sites=tiny.sites[-1:]):
        silenced = embed(tiny)
    assert (silenced - embed(tiny)).abs().max() > 1e-5


def test_a_recording_keeps_what_was_asked_for_and_nothing_else(tiny):
    """A mean is kept as one token, so that what reads a recording need not know which it was given."""
    x, short = noise(tiny, 2), torch.zeros(2, dtype=torch.bool)
    with torch.inference_mode():
        whole = recorded(tiny, x, short, Keep(heads="tokens", mlps="tokens", entries="tokens", ends="tokens", input=True, moments=True))
        means = recorded(tiny, x, short, Keep(heads="mean", mlps="mean", entries="mean", ends="mean"))
        nothing = recorded(tiny, x, short, Keep())
    assert not any((nothing.heads, nothing.mlps, nothing.entries, nothing.ends, nothing.moments))
    assert nothing.input is None
    with pytest.raises(RecordError, match="was not recorded"):
        nothing.first_stream  # noqa: B018
    assert torch.equal(nothing.embedding, whole.embedding)
    assert list(whole.heads) == list(whole.mlps) == list(whole.entries) == list(whole.moments) == list(tiny.units.blocks)
    assert torch.equal(whole.first_stream, whole.entries[0, 0])
    assert all(m.shape[1] == 1 for part in (means.heads, means.mlps, means.entries, means.ends) for m in part.values())
    assert torch.equal(pooled_heads(means, tiny.units), pooled_heads(whole, tiny.units))
    for stage in range(len(tiny.stages)):
        for read in (mlp_means, entry_means, end_mean):
            assert torch.equal(read(means, tiny.units, stage), read(whole, tiny.units, stage))
    assert torch.allclose(token_moments(whole, tiny.units).mean.float(), pooled_heads(whole, tiny.units).mean(0), atol=1e-5)


def test_a_module_that_is_only_watched_must_fire_too(tiny):
    with pytest.raises(RecordError, match="1 of 1 watched sites never fired"), record(tiny, outputs={tiny.sites[-1].module: print}):
        pass
    assert hooks(tiny) == 0
