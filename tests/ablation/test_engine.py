"""Ablation with the prefix reused equals ablating one unit at a time through the whole model."""

import pytest
import torch

from residual_audio.ablation.engine import KINDS, Ablation, Replacements, UnitMeans, first_order
from residual_audio.models.recording import record
from residual_audio.units import Unit
from tests.helpers.layouts import DISTINCT_SOUNDS, open_layout


@pytest.fixture(scope="module", params=DISTINCT_SOUNDS)
def encoder(request):
    encoder = open_layout(request.param, request)
    encoder.module.to(torch.float64)
    return encoder


@pytest.fixture(scope="module")
def batch(encoder, sound_files):
    prepared = [encoder.prepare(p) for p in sound_files[:2]]
    features = torch.cat([p.features[:1] for p in prepared]).to(encoder.dtype)
    return features, torch.tensor([p.longer for p in prepared])


def naive(encoder, batch, label, kind, replacements):
    """Through the whole model, with hooks written from the definition."""
    number = {(s.stage, s.block): i for i, s in enumerate(encoder.sites)}

    def heads(site, z):
        unit = Unit.parse(label)
        if (site.stage, site.block) != (unit.stage, unit.block):
            return None
        z = z.clone()
        d = encoder.units.d_head[site.stage]
        z[..., unit.head * d : (unit.head + 1) * d] = replacements.heads[number[site.stage, site.block]][unit.head]
        return z

    def write(site, a):
        if label not in (f"S{site.stage}", f"S{site.stage}B{site.block}"):
            return None
        projection = encoder.module.get_submodule(site.projection)
        mean = replacements.heads[number[site.stage, site.block]].flatten()
        return (torch.zeros_like(mean) if replacements.how == "zero" else projection.weight @ mean + projection.bias).expand_as(a)

    def mlp(site, m):
        unit = Unit.parse(label)
        if (site.stage, site.block) != (unit.stage, unit.block):
            return None
        return replacements.mlp[number[site.stage, site.block]].expand_as(m)

    hooks = {"head": {"heads": heads}, "mlp": {"mlp": mlp}}.get(kind, {"write": write})
    with torch.inference_mode(), record(encoder, **hooks):
        return encoder.encode(*batch)


@pytest.fixture(scope="module")
def means(encoder, batch):
    stream = UnitMeans(encoder)
    for i in range(len(batch[0])):
        stream.run(batch[0][i : i + 1], batch[1][i : i + 1])
    return stream.replacements()


def test_resuming_from_any_block_is_the_whole_forward(encoder, batch):
    entries = []
    with torch.inference_mode():
        with record(encoder, entry=lambda site, x: entries.append(x)):
            whole = encoder.encode(*batch)
        for i, entry in enumerate(entries):
            torch.testing.assert_close(encoder.resume(entry, i), whole, rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(encoder.resume(entries[0], 0, stop=len(entries) - 1), entries[-1], rtol=1e-9, atol=1e-11)


def test_streamed_means_are_the_means(encoder, batch, means):
    seen = []
    with torch.inference_mode(), record(encoder, heads=lambda site, z: seen.append(z.flatten(0, -2).mean(0))):
        encoder.encode(*batch)
    for mean, found in zip(seen, means.heads, strict=True):
        torch.testing.assert_close(found.flatten(), mean)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["zero", "mean"])
def test_equal_to_the_naive_way(encoder, batch, means, kind, how):
    replacements = means if how == "mean" else Replacements.zero(encoder)
    plain, found = Ablation(encoder, kind, replacements, rows=5).run(*batch)
    with torch.inference_mode():
        torch.testing.assert_close(plain, encoder.encode(*batch))
    step = max(1, len(found.labels) // 6)
    for i in range(0, len(found.labels), step):
        expected = naive(encoder, batch, found.labels[i], kind, replacements)
        torch.testing.assert_close(found.embeddings[i], expected, rtol=1e-8, atol=1e-10)
        assert (expected - plain).abs().max() > 1e-9, "the unit does nothing, so the test proves nothing"


@pytest.mark.parametrize("kind", KINDS)
def test_first_order_is_the_derivative(encoder, batch, kind):
    """Moving a unit a small part of the way changes the score by that part of the estimate."""
    direction = torch.randn(encoder.dim, dtype=torch.float64)

    def score(e):
        return e @ direction

    zero = Replacements.zero(encoder)
    estimate = first_order(encoder, *batch, score, kind, zero)
    labels = Ablation(encoder, kind, zero).labels
    assert estimate.shape == (len(labels), len(batch[0]))
    step = 1e-5
    for i in range(0, len(labels), max(1, len(labels) // 3)):

        def scaled(site, x, label=labels[i]):
            if kind == "head":
                unit = Unit.parse(label)
                if (site.stage, site.block) != (unit.stage, unit.block):
                    return None
                x, d = x.clone(), encoder.units.d_head[site.stage]
                x[..., unit.head * d : (unit.head + 1) * d] *= 1 - step
                return x
            mine = label.removesuffix("M") in (f"S{site.stage}", f"S{site.stage}B{site.block}")
            return x * (1 - step) if mine else None

        name = {"head": "heads", "mlp": "mlp"}.get(kind, "write")
        with torch.inference_mode(), record(encoder, **{name: scaled}):
            moved = score(encoder.encode(*batch))
        with torch.inference_mode():
            slope = (score(encoder.encode(*batch)) - moved) / step
        torch.testing.assert_close(estimate[i], slope, rtol=1e-3, atol=1e-6)


def test_nothing_is_left_behind(encoder, batch):
    with torch.inference_mode():
        before = encoder.encode(*batch)
        Ablation(encoder, "stage", Replacements.zero(encoder)).run(*batch)
        assert torch.equal(encoder.encode(*batch), before)
    assert not any("forward" in encoder.module.get_submodule(s.attention).__dict__ for s in encoder.sites)
