"""Σ parts = whole on vision towers: what is recorded of them is exact."""

import pytest
import torch

from residual_audio.decomposition.heads import head_contributions
from residual_audio.decomposition.joint import Held, joint_constant, joint_shares
from residual_audio.extraction.capture import GRANULARITIES, Capture
from residual_audio.models import load_encoder
from residual_audio.units import Unit

TOWERS = ["clip_dir", "vit_dir", "dinov2_dir"]


@pytest.fixture(params=TOWERS)
def encoder(request):
    return load_encoder(request.getfixturevalue(request.param))


def everything(encoder, files, token_units=("S0B1H2",)):
    capture = Capture(encoder, GRANULARITIES, [Unit.parse(label) for label in token_units])
    x = torch.cat([encoder.prepare(f).features for f in files[:3]]).to(encoder.dtype)
    return capture, capture.run(x, torch.zeros(3, dtype=torch.bool)).arrays


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_direct_shares_sum_to_the_pooled_output_and_the_embedding(encoder, image_files, dtype, tolerance):
    encoder.module.to(dtype)
    capture, a = everything(encoder, image_files)
    pooled, joint = a["embedding.pooled"], a["embedding.joint"]
    assert a["direct.units"].shape == (3, len(encoder.units), encoder.units.d_model[0])
    assert (a["direct.units"].sum(1) + a["direct.constant"] - pooled).abs().max() <= tolerance * pooled.abs().max()
    if capture.joint is not None:
        held = Held(a["direct.ratio"], a["direct.scale"])
        total = joint_shares(a["direct.units"], capture.joint, held).sum(1) + joint_constant(a["direct.constant"], capture.joint, held)
        assert (total - joint).abs().max() <= tolerance * joint.abs().max()
    else:
        assert torch.equal(pooled, joint)


def test_a_share_is_what_the_unit_wrote_at_the_class_token(encoder, image_files):
    """One head's write at token 0, through the final norm held, by hooks written from the definition."""
    encoder.module.to(torch.float64)
    seen = {}
    site = encoder.sites[1]
    norm = encoder.module.get_submodule(encoder.readout.norm)
    handles = [
        encoder.module.get_submodule(site.projection).register_forward_pre_hook(lambda m, a: seen.__setitem__("z", a[0])),
        norm.register_forward_pre_hook(lambda m, a: seen.__setitem__("end", a[0] if a[0].ndim == 2 else a[0][:, 0])),
    ]
    _, a = everything(encoder, image_files)
    for handle in handles:
        handle.remove()
    layer, d = encoder.module.get_submodule(site.projection), encoder.units.d_head[0]
    with torch.no_grad():
        z = seen["z"].reshape(3, -1, site.heads * d)[:, 0]
        wrote = z[:, 2 * d : 3 * d] @ layer.weight[:, 2 * d : 3 * d].T + layer.bias / site.heads
        held = torch.rsqrt(seen["end"].var(-1, unbiased=False, keepdim=True) + norm.eps)
        expected = (wrote - wrote.mean(-1, keepdim=True)) * held * norm.weight
    assert (a["direct.units"][:, encoder.units.index("S0B1H2")] - expected).abs().max() < 1e-12


def test_streams_add_up(encoder, image_files):
    """Stream leaving the last block = stream entering the first + Σ heads + Σ MLPs, all pooled."""
    _, a = everything(encoder, image_files)
    total = a["block.0"][:, 0] + a["mlp.0"].sum(1)
    for site in encoder.sites:
        layer = encoder.module.get_submodule(site.projection)
        mine = a["head"][:, site.block * site.heads : (site.block + 1) * site.heads]
        total = total + head_contributions(mine, layer.weight.detach(), layer.bias.detach()).sum(1)
    assert (total - a["stage.0"]).abs().max() < 2e-5 * a["stage.0"].abs().max()


def test_token_maps_hold_the_class_token_and_then_the_patches(encoder, image_files):
    _, a = everything(encoder, image_files)
    tokens = a["tokens.S0B1H2"]
    assert tokens.shape == (3, 1, 1 + 4 * 4, encoder.units.d_head[0])
    assert torch.allclose(tokens.mean((1, 2)), a["head"][:, encoder.units.heads[0][0] + 2], atol=1e-6)
