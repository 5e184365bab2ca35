"""The contract on real weights: Whisper tiny.en's encoder, where it lies beside the project."""

import pytest
import torch

from residual_audio.extraction.capture import Capture
from residual_audio.models import load_encoder
from tests.ablation.test_engine import (  # noqa: F401
    means,
    test_equal_to_the_naive_way,
    test_resuming_from_any_block_is_the_whole_forward,
)
from tests.adaptation.test_fold import test_folding_equals_running  # noqa: F401 — collected here with the fixtures below


@pytest.fixture(scope="module")
def encoder(shared):
    weights = shared / "models" / "whisper-tiny.en-encoder"
    if not weights.is_dir():
        pytest.skip("no Whisper weights beside the project")
    encoder = load_encoder(weights, seconds=0.4)
    encoder.module.to(torch.float64)
    return encoder


@pytest.fixture(scope="module")
def batch(encoder, sound_files):
    return torch.cat([encoder.prepare(p).features for p in sound_files[:2]]).to(encoder.dtype), torch.zeros(2, dtype=torch.bool)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_direct_shares_sum_to_the_embedding(encoder, batch, dtype, tolerance):
    encoder.module.to(dtype)
    try:
        a = Capture(encoder, ("direct",)).run(batch[0].to(dtype), batch[1]).arrays
    finally:
        encoder.module.to(torch.float64)
    whole = a["embedding.joint"]
    assert (a["direct.units"].sum(1) + a["direct.constant"] - whole).abs().max() <= tolerance * whole.abs().max()
