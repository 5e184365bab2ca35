"""Ablation with the prefix reused equals ablating one unit at a time through the whole model."""

import pytest
import torch

from residual_audio.ablation.engine import ABLATABLE, Ablation, Replacements, UnitMeans
from residual_audio.ablation.first_order import first_order
from residual_audio.models.recording import record
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


def naive(encoder, batch, unit, replacements):
    """Through the whole model, with hooks written from the definition."""
    number = {(s.stage, s.block): i for i, s in enumerate(encoder.sites)}

    def here(site):
        return site.stage == unit.stage and unit.block in (-1, site.block)

    def heads(site, z):
        if not here(site):
            return None
        z = z.clone()
        d = encoder.units.d_head[site.stage]
        z[..., unit.head * d : (unit.head + 1) * d] = replacements.heads[number[site.stage, site.block]][unit.head]
        return z

    def write(site, a):
        if not here(site):
            return None
        projection = encoder.module.get_submodule(site.projection)
        mean = replacements.heads[number[site.stage, site.block]].flatten()
        return (torch.zeros_like(mean) if replacements.how == "zero" else projection.weight @ mean + projection.bias).expand_as(a)

    def mlp(site, m):
        return replacements.mlp[number[site.stage, site.block]].expand_as(m) if here(site) else None

    hooks = {"head": {"heads": heads}, "mlp": {"mlp": mlp}}.get(unit.kind, {"write": write})
    with torch.inference_mode(), record(encoder, **hooks):
        return encoder.encode(*batch)


def selected(encoder, kind):
    return encoder.units.select(f"{kind}s", only=ABLATABLE)


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
    for mean, streamed in zip(seen, means.heads, strict=True):
        torch.testing.assert_close(streamed.flatten(), mean)


@pytest.mark.parametrize("kind", ABLATABLE)
@pytest.mark.parametrize("how", ["zero", "mean"])
def test_equal_to_the_naive_way(encoder, batch, means, kind, how):
    replacements = means if how == "mean" else Replacements.zero(encoder)
    units = selected(encoder, kind)
    plain, changed = Ablation(encoder, units, replacements, rows=5).run(*batch)
    assert len(changed) == len(units)
    with torch.inference_mode():
        torch.testing.assert_close(plain, encoder.encode(*batch))
    for i in range(0, len(units), max(1, len(units) // 6)):
        expected = naive(encoder, batch, units[i], replacements)
        torch.testing.assert_close(changed[i], expected, rtol=1e-8, atol=1e-10)
        assert (expected - plain).abs().max() > 1e-9, "the unit does nothing, so the test proves nothing"


def test_a_mixed_selection_is_each_of_its_units(encoder, batch, means):
    """Heads that are not neighbours, and other kinds beside them: as each of them alone, in the order of the selection."""
    last = encoder.units.blocks[-1]
    place = f"S{last[0]}B{last[1]}"
    heads = encoder.units.heads[last[0]][last[1]]
    units = (
        *encoder.units.select(f"{place}H{heads - 1} {place}H0 S0B0H0", only=ABLATABLE),
        *encoder.units.select(f"{place} S0B0 mlps blocks", only=ABLATABLE),
        *encoder.units.select(f"S{last[0]} stages", only=ABLATABLE),
    )
    _, changed = Ablation(encoder, units, means, rows=5).run(*batch)
    score = torch.randn(encoder.dim, dtype=torch.float64)
    together = first_order(encoder, *batch, lambda e: e @ score, units, means)
    for i, unit in enumerate(units):
        torch.testing.assert_close(changed[i], naive(encoder, batch, unit, means), rtol=1e-8, atol=1e-10)
        alone = first_order(encoder, *batch, lambda e: e @ score, (unit,), means)
        torch.testing.assert_close(together[i], alone[0], rtol=1e-9, atol=1e-12)


def test_only_blocks_with_chosen_units_are_repeated(encoder, batch, monkeypatch):
    """A resumed forward starts at the block of a chosen unit, once for all of its heads that fit."""
    started = []
    whole = type(encoder).resume

    def resume(self, stream, block, *args, **named):
        started.append(block)
        return whole(self, stream, block, *args, **named)

    monkeypatch.setattr(type(encoder), "resume", resume)
    last = len(encoder.sites) - 1
    site = encoder.sites[last]
    units = encoder.units.select(f"S{site.stage}B{site.block} heads mlps", only=ABLATABLE)
    Ablation(encoder, units, Replacements.zero(encoder), rows=1000, threads=1).run(*batch)
    assert started == [last, last], "all heads together, and the MLP"


@pytest.mark.parametrize("kind", ABLATABLE)
def test_first_order_is_the_derivative(encoder, batch, kind):
    """Moving a unit a small part of the way changes the score by that part of the estimate."""
    direction = torch.randn(encoder.dim, dtype=torch.float64)

    def score(e):
        return e @ direction

    zero = Replacements.zero(encoder)
    units = selected(encoder, kind)
    estimate = first_order(encoder, *batch, score, units, zero)
    assert estimate.shape == (len(units), len(batch[0]))
    step = 1e-5
    for i in range(0, len(units), max(1, len(units) // 3)):

        def scaled(site, x, unit=units[i]):
            if site.stage != unit.stage or unit.block not in (-1, site.block):
                return None
            if kind != "head":
                return x * (1 - step)
            x, d = x.clone(), encoder.units.d_head[site.stage]
            x[..., unit.head * d : (unit.head + 1) * d] *= 1 - step
            return x

        name = {"head": "heads", "mlp": "mlp"}.get(kind, "write")
        with torch.inference_mode(), record(encoder, **{name: scaled}):
            moved = score(encoder.encode(*batch))
        with torch.inference_mode():
            slope = (score(encoder.encode(*batch)) - moved) / step
        torch.testing.assert_close(estimate[i], slope, rtol=1e-3, atol=1e-6)


def test_nothing_is_left_behind(encoder, batch):
    with torch.inference_mode():
        before = encoder.encode(*batch)
        Ablation(encoder, selected(encoder, "stage"), Replacements.zero(encoder)).run(*batch)
        assert torch.equal(encoder.encode(*batch), before)
    assert not any("forward" in encoder.module.get_submodule(s.attention).__dict__ for s in encoder.sites)
