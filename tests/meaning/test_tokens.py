"""Token maps sum to the score, and a unit's map to its direct share, on every layout."""

import pytest
import torch
import torch.nn.functional as F

from residual_audio.decomposition.joint import Held, joint_shares
from residual_audio.extraction.capture import Capture
from residual_audio.meaning.tokens import spread, token_map
from residual_audio.models import load_encoder
from residual_audio.units import Unit
from tests.helpers.layouts import ALL, noise, open_layout


@pytest.mark.parametrize("name", ALL)
def test_the_map_sums_to_the_cosine_and_each_units_to_its_share(name, request):
    encoder = open_layout(name, request)
    for dtype, tolerance in ((torch.float32, 2e-5), (torch.float64, 1e-11)):
        encoder.module.to(dtype)
        direction = F.normalize(torch.randn(encoder.dim, generator=torch.Generator().manual_seed(1), dtype=dtype), dim=0)
        assert_sums(encoder, encoder.embed_text(["a church bell"])[0] if encoder.has_text else direction, tolerance)


def assert_sums(encoder, direction, tolerance):
    x, short = noise(encoder, 1), torch.zeros(1, dtype=torch.bool)
    found = token_map(encoder, x, short, direction)
    with torch.no_grad():
        embedding = encoder.encode(x, short)[0]
    assert found.score == pytest.approx(float(F.cosine_similarity(embedding, direction, dim=0)), abs=tolerance)
    size = max(1.0, float(torch.stack([m.abs().sum() for m in found.maps]).sum()))
    assert abs(float(found.total.sum()) - found.score) <= tolerance * size
    assert found.units == tuple(encoder.units)

    capture = Capture(encoder, ("direct",))
    arrays = capture.run(x, short).arrays
    shares = arrays["direct.units"]
    if capture.joint is not None:
        shares = joint_shares(shares, capture.joint, Held(arrays["direct.ratio"], arrays["direct.scale"]))
    expected = shares[0] @ direction / embedding.norm()
    assert (torch.stack([m.sum() for m in found.maps]) - expected).abs().max() <= tolerance * size


def test_units_add_up_to_the_map_and_spreading_keeps_the_sum():
    encoder = load_encoder("tiny")
    direction = encoder.embed_text(["rain"])[0]
    found = token_map(encoder, noise(encoder, 1), torch.zeros(1, dtype=torch.bool), direction)
    heads = encoder.units.where("head")
    rest = [u for u in encoder.units if u.kind != "head"]
    assert torch.allclose(found.of(*heads) + found.of(*rest), found.of(), atol=1e-7)
    assert torch.allclose(found.of() + found.constant, found.total)
    coarse = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert spread(coarse, (4, 8)).sum() == coarse.sum()
    assert spread(coarse, (4, 8))[3, 7] == 4 / 8


def test_a_sound_late_in_the_clip_moves_the_late_part_of_the_map(laion_dir):
    """Of an early unit, which has not yet mixed the tokens; time and frequency are where the sound is."""
    encoder = load_encoder(laion_dir)
    direction = encoder.embed_text(["a dog"])[0]
    quiet = torch.full((1, 1, 1001, 64), -80.0)
    late = quiet.clone()
    late[:, :, 700:760, 40:50] = 0.0
    short = torch.zeros(1, dtype=torch.bool)
    units = [Unit.parse("E")]
    change = (token_map(encoder, late, short, direction).of(*units) - token_map(encoder, quiet, short, direction).of(*units)).abs()
    frequency, time = divmod(int(change.argmax()), change.shape[1])
    assert 700 / 1001 * 256 - 10 < time < 760 / 1001 * 256 + 10
    assert 40 / 4 - 3 < frequency < 50 / 4 + 3
