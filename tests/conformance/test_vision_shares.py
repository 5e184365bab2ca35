"""What is recorded of vision towers is about the class token and the patches (that parts sum is in tests/extraction/test_capture.py)."""

import pytest
import torch

from residual_audio.extraction.capture import GRANULARITIES, Capture
from residual_audio.units import Unit
from tests.helpers.layouts import IMAGES, first_windows, open_layout


@pytest.fixture(params=IMAGES)
def encoder(request):
    return open_layout(request.param, request)


def everything(encoder, files, token_units=("S0B1H2",)):
    capture = Capture(encoder, GRANULARITIES, [Unit.parse(label) for label in token_units])
    return capture.run(*first_windows(encoder, files, 3)).arrays


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
    a = everything(encoder, image_files)
    for handle in handles:
        handle.remove()
    layer, d = encoder.module.get_submodule(site.projection), encoder.units.d_head[0]
    with torch.no_grad():
        z = seen["z"].reshape(3, -1, site.heads * d)[:, 0]
        wrote = z[:, 2 * d : 3 * d] @ layer.weight[:, 2 * d : 3 * d].T + layer.bias / site.heads
        held = torch.rsqrt(seen["end"].var(-1, unbiased=False, keepdim=True) + norm.eps)
        expected = (wrote - wrote.mean(-1, keepdim=True)) * held * norm.weight
    assert (a["direct.units"][:, encoder.units.index("S0B1H2")] - expected).abs().max() < 1e-12


def test_token_maps_hold_the_class_token_and_then_the_patches(encoder, image_files):
    a = everything(encoder, image_files)
    tokens = a["tokens.S0B1H2"]
    assert tokens.shape == (3, 1, 1 + 4 * 4, encoder.units.d_head[0])
    assert torch.allclose(tokens.mean((1, 2)), a["head"][:, encoder.units.heads[0][0] + 2], atol=1e-6)
