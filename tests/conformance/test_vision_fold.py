"""fold = hooked on vision towers: the tests that every encoder passes, on images; and the folded checkpoints without this package."""

import pytest
import torch
from transformers import CLIPModel, Dinov2Model, ViTModel

from residual_audio.adaptation.fold import FoldError, fold
from residual_audio.models import load_encoder
from tests.adaptation.test_fold import (  # noqa: F401 — collected here with the fixtures below
    outputs,
    test_a_gain_moves_only_its_own_axis,
    test_folding_equals_running,
    test_folding_is_exact_in_float64,
    test_gains_of_one_are_the_identity,
    test_gradient_reaches_gains_only,
    test_nothing_is_left_after_an_error,
    test_resume_is_adapted_too,
)
from tests.helpers.gains import made_up


@pytest.fixture(scope="module", params=["clip_dir", "vit_dir", "dinov2_dir"])
def encoder(request):
    return load_encoder(request.getfixturevalue(request.param))


@pytest.fixture(scope="module")
def batch(encoder, image_files):
    return torch.cat([encoder.prepare(p).features for p in image_files[:2]]), torch.zeros(2, dtype=torch.bool)


def by_transformers(kind, folder, pixels):
    """The embedding as a user of transformers alone gets it."""
    model = kind.from_pretrained(folder).eval()
    with torch.inference_mode():
        if kind is CLIPModel:
            return model.get_image_features(pixel_values=pixels).pooler_output
        return model(pixel_values=pixels).last_hidden_state[:, 0]


def test_the_folded_model_loads_without_this_package(encoder, batch, tmp_path):
    kind = {"ClipEncoder": CLIPModel, "ViTEncoder": ViTModel, "Dinov2Encoder": Dinov2Model}[type(encoder).__name__]
    residual = made_up(encoder, "heads mlps embedding" if kind is CLIPModel else "heads mlps blocks", "keep")
    live = outputs(encoder, batch, residual)
    fold(encoder, residual).save(tmp_path)
    theirs = by_transformers(kind, tmp_path, batch[0])
    assert (theirs - live).abs().max() < 1e-5 * max(1.0, live.abs().max())
    assert (theirs - outputs(encoder, batch)).abs().max() > 1e-2 * live.abs().max()
    again = load_encoder(tmp_path)
    assert again.policy == encoder.policy
    assert (outputs(again, batch) - live).abs().max() < 1e-5 * max(1.0, live.abs().max())


def test_a_zero_gain_with_nowhere_to_go_is_refused(clip_dir):
    encoder = load_encoder(clip_dir)
    residual = made_up(encoder, "embedding", "keep")
    with pytest.raises(FoldError, match="no bias"):
        fold(encoder, residual.with_gains([torch.zeros_like(residual.sets[0].gain)]))
