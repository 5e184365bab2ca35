"""Σ parts = whole, on every layout: what is recorded is exact."""

import pytest
import torch

from residual_audio.decomposition.heads import head_contributions
from residual_audio.decomposition.joint import Held, joint_constant, joint_shares
from residual_audio.extraction.capture import GRANULARITIES, Capture
from residual_audio.models import load_encoder
from residual_audio.models.fused import fuse_attention, unfuse_attention
from residual_audio.units import Unit
from tests.helpers import checkpoints
from tests.helpers.layouts import ALL, open_layout
from tests.helpers.layouts import noise as features


def everything(encoder, token_units=("S0B0H0",)):
    capture = Capture(encoder, GRANULARITIES, [Unit.parse(label) for label in token_units])
    x = features(encoder)
    return capture, capture.run(x, torch.zeros(len(x), dtype=torch.bool))


def assert_sums(encoder, tolerance: float) -> None:
    capture, batch = everything(encoder)
    a = batch.arrays
    pooled = a["embedding.pooled"]
    assert a["direct.units"].shape == (3, len(encoder.units), pooled.shape[1])
    assert (a["direct.units"].sum(1) + a["direct.constant"] - pooled).abs().max() <= tolerance * pooled.abs().max()
    if capture.joint is not None:
        held = Held(a["direct.ratio"], a["direct.scale"])
        total = joint_shares(a["direct.units"], capture.joint, held).sum(1) + joint_constant(a["direct.constant"], capture.joint, held)
        assert (total - a["embedding.joint"]).abs().max() <= tolerance * a["embedding.joint"].abs().max()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_direct_shares_sum_to_the_pooled_output_and_the_embedding(name, dtype, tolerance, request):
    encoder = open_layout(name, request)
    encoder.module.to(dtype)
    assert_sums(encoder, tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_the_same_at_full_size(tmp_path, dtype, tolerance):
    encoder = load_encoder(checkpoints.laion(tmp_path, fused=False, full_size=True))
    encoder.module.to(dtype)
    assert_sums(encoder, tolerance)


def test_a_share_is_what_pushing_the_whole_token_map_gives(laion_dir):
    """The cheap form against the naive one: push a unit's token map through every held norm, merge by merge."""
    encoder = load_encoder(laion_dir)
    encoder.module.double()
    capture = Capture(encoder, ("direct",))
    x = features(encoder, 2)
    seen: dict[str, torch.Tensor] = {}
    htsat = encoder.module.audio_model.audio_encoder
    handles = [htsat.norm.register_forward_pre_hook(lambda m, a: seen.__setitem__("final", a[0]))]
    for s, stage in enumerate(htsat.layers[:-1]):
        handles.append(stage.downsample.norm.register_forward_pre_hook(lambda m, a, s=s: seen.__setitem__(f"merge {s}", a[0])))
    block = htsat.layers[1].blocks[1]
    handles.append(block.output.register_forward_hook(lambda m, a, o: seen.__setitem__("mlp", o)))
    with torch.no_grad():
        encoder.encode(x, torch.zeros(2, dtype=torch.bool))
    for handle in handles:
        handle.remove()

    def held(tokens, at, norm):
        scale = torch.rsqrt(at.var(-1, unbiased=False, keepdim=True) + norm.eps)
        return (tokens - tokens.mean(-1, keepdim=True)) * scale * norm.weight

    tokens = seen["mlp"]
    with torch.no_grad():
        for s in (1, 2):
            side = htsat.input_resolutions[s][0]
            grid = tokens.view(2, side, side, -1)
            merged = torch.cat([grid[:, r::2, c::2] for c in range(2) for r in range(2)], -1).flatten(1, 2)
            merge = htsat.layers[s].downsample
            tokens = merge.reduction(held(merged, seen[f"merge {s}"], merge.norm))
        expected = held(tokens, seen["final"], htsat.norm).mean(1)
    ours = capture.run(x, torch.zeros(2, dtype=torch.bool)).arrays["direct.units"][:, encoder.units.index("S1B1M")]
    assert (ours - expected).abs().max() < 1e-12


@pytest.mark.parametrize("name", ALL)
def test_heads_sum_to_the_attention_output_and_pooling_commutes(name, request):
    encoder = open_layout(name, request)
    written, outputs, handles = {}, {}, []
    for site in encoder.sites:
        projection = encoder.module.get_submodule(site.projection)
        handles.append(projection.register_forward_hook(lambda m, a, o, key=site: outputs.__setitem__(key, (a[0], o))))
    _, batch = everything(encoder)
    for handle in handles:
        handle.remove()
    heads = dict(zip([u.label for u in encoder.units.where("head")], batch.arrays["head"].unbind(1), strict=True))
    for site, (z, out) in outputs.items():
        projection = encoder.module.get_submodule(site.projection)
        split = z.unflatten(-1, (site.heads, -1))
        parts = head_contributions(split, projection.weight.detach(), projection.bias.detach())
        assert (parts.sum(-2) - out).abs().max() <= 1e-6 * out.abs().max() * 5
        own = torch.stack([heads[f"S{site.stage}B{site.block}H{h}"] for h in range(site.heads)], 1)
        derived = head_contributions(own, projection.weight.detach(), projection.bias.detach())
        projected_first = parts.reshape(3, -1, site.heads, out.shape[-1]).mean(1)
        assert (derived - projected_first).abs().max() < 1e-5 * projected_first.abs().max()
        written[site] = derived
    assert len(written) == len(encoder.units.blocks)


@pytest.mark.parametrize("name", ALL)
def test_streams_add_up_inside_a_stage(name, request):
    """stream leaving a stage = stream entering its first block + Σ heads + Σ MLPs, all pooled."""
    encoder = open_layout(name, request)
    _, batch = everything(encoder)
    a = batch.arrays
    rows = {u.label: i for i, u in enumerate(encoder.units.where("head"))}
    for s in range(len(encoder.stages)):
        total = a[f"block.{s}"][:, 0] + a[f"mlp.{s}"].sum(1)
        for site in (site for site in encoder.sites if site.stage == s):
            projection = encoder.module.get_submodule(site.projection)
            own = a["head"][:, [rows[f"S{s}B{site.block}H{h}"] for h in range(site.heads)]]
            total = total + head_contributions(own, projection.weight.detach(), projection.bias.detach()).sum(1)
        assert (total - a[f"stage.{s}"]).abs().max() < 2e-5 * a[f"stage.{s}"].abs().max()


def test_token_maps_are_the_head_on_the_spectrogram(laion_dir):
    """Their mean is the pooled head, and a sound in one half of the clip moves that half of the map most."""
    encoder = load_encoder(laion_dir)
    capture, batch = everything(encoder, ("S0B1H1", "S2B1H3"))
    rows = {u.label: i for i, u in enumerate(encoder.units.where("head"))}
    for label, shape in (("S0B1H1", (16, 256)), ("S2B1H3", (4, 64))):
        tokens = batch.arrays[f"tokens.{label}"]
        assert tokens.shape[1:3] == shape
        assert torch.allclose(tokens.mean((1, 2)), batch.arrays["head"][:, rows[label]], atol=1e-5)
    quiet = torch.full((1, 1, 1001, 64), -80.0)
    late = quiet.clone()
    late[:, :, 700:760, 40:50] = 0.0
    flags = torch.zeros(1, dtype=torch.bool)
    change = capture.run(late, flags).arrays["tokens.S0B1H1"] - capture.run(quiet, flags).arrays["tokens.S0B1H1"]
    loud = change.norm(dim=-1)[0]
    frequency, time = divmod(int(loud.argmax()), loud.shape[1])
    assert 700 / 1001 * 256 - 10 < time < 760 / 1001 * 256 + 10
    assert 40 / 4 - 3 < frequency < 50 / 4 + 3


@pytest.mark.parametrize("name", ["tiny", "laion_dir", "msclap_path"])
def test_fused_attention_is_the_eager_one(name, request):
    encoder = open_layout(name, request)
    x, flags = features(encoder), torch.zeros(3, dtype=torch.bool)
    with torch.no_grad():
        fused = encoder.encode(x, flags)
        unfuse_attention(encoder.module)
        eager = encoder.encode(x, flags)
    assert not torch.equal(fused, eager)
    assert (fused - eager).abs().max() < 1e-5 * eager.abs().max()
    fuse_attention(encoder.module)
    with torch.no_grad():
        encoder.module.audio_model.audio_encoder.layers[0].blocks[0].attention.self.value.weight.mul_(3)
        changed = encoder.encode(x, flags)
        unfuse_attention(encoder.module)
        assert (changed - encoder.encode(x, flags)).abs().max() < 1e-5 * eager.abs().max()
    assert (changed - eager).abs().max() > 1e-4 * eager.abs().max()


def test_what_was_prepared_while_inferring_serves_a_gradient_too(laion_dir):
    encoder = load_encoder(laion_dir)
    encoder.module.requires_grad_(False)
    x, flags = features(encoder, 1), torch.zeros(1, dtype=torch.bool)
    with torch.inference_mode():
        encoder.encode(x, flags)
    x.requires_grad_()
    encoder.encode(x, flags).sum().backward()
    assert x.grad.abs().max() > 0


def test_fused_attention_lets_its_weights_be_trained(laion_dir):
    encoder = load_encoder(laion_dir)
    encoder.encode(features(encoder, 1), torch.zeros(1, dtype=torch.bool)).sum().backward()
    attention = encoder.module.audio_model.audio_encoder.layers[0].blocks[1].attention.self
    assert attention.query.weight.grad.abs().max() > 0
    assert attention.relative_position_bias_table.grad.abs().max() > 0


def test_moments_count_every_token(laion_dir):
    encoder = load_encoder(laion_dir)
    _, batch = everything(encoder)
    grids = [grid[0] * grid[1] for grid in (s.grid for s in encoder.stages)]
    expected = [3 * grids[u.stage] for u in encoder.units.where("head")]
    assert batch.moments.count.tolist() == expected
    assert torch.allclose(batch.moments.mean.float(), batch.arrays["head"].mean(0), atol=1e-5)
