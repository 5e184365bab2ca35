"""Resuming and ablating vision towers: the tests that every encoder passes, on images."""

import pytest
import torch

from residual_audio.ablation.engine import Replacements
from residual_audio.ablation.first_order import first_order
from residual_audio.models.recording import record
from tests.ablation.test_engine import (  # noqa: F401 — collected here with the fixtures below
    means,
    test_equal_to_the_naive_way,
    test_nothing_is_left_behind,
    test_resuming_from_any_block_is_the_whole_forward,
    test_streamed_means_are_the_means,
)
from tests.helpers.layouts import IMAGES, open_layout


@pytest.fixture(scope="module", params=IMAGES)
def encoder(request):
    encoder = open_layout(request.param, request)
    encoder.module.to(torch.float64)
    return encoder


@pytest.fixture(scope="module")
def batch(encoder, image_files):
    return torch.cat([encoder.prepare(p).features for p in image_files[:2]]).to(encoder.dtype), torch.zeros(2, dtype=torch.bool)


@pytest.mark.parametrize("kind", ["head", "block", "mlp"])
def test_first_order_is_the_derivative(encoder, batch, kind):
    """Central differences: a unit whose effect nearly cancels has more curvature than slope."""
    direction, step, zero = torch.randn(encoder.dim, dtype=torch.float64), 1e-5, Replacements.zero(encoder)
    units = encoder.units.select(f"{kind}s")
    estimate = first_order(encoder, *batch, lambda e: e @ direction, units, zero)
    assert estimate.shape == (len(units), len(batch[0]))
    reach = {"head": "heads", "block": "write", "mlp": "mlp"}[kind]

    def moved(block, by):
        def scaled(site, x):
            if site.block != block:
                return None
            size = encoder.units.d_head[0] if kind == "head" else x.shape[-1]
            return torch.cat([x[..., :size] * (1 - by), x[..., size:]], -1)  # the block's first head, or all of the write

        with torch.inference_mode(), record(encoder, **{reach: scaled}):
            return encoder.encode(*batch) @ direction

    for block, site in enumerate(encoder.sites):
        slope = (moved(block, -step) - moved(block, step)) / (2 * step)
        torch.testing.assert_close(estimate[block * (site.heads if kind == "head" else 1)], slope, rtol=1e-4, atol=1e-7)
