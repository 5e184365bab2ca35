"""Folded checkpoints of vision towers load without this package (that folding equals running is in tests/adaptation/test_fold.py)."""

import pytest
import torch
from transformers import CLIPModel, Dinov2Model, ViTModel

from residual_audio.adaptation.fold import fold
from residual_audio.models import load_encoder
from tests.adaptation.test_fold import outputs
from tests.helpers.gains import made_up
from tests.helpers.layouts import IMAGES, first_windows, open_layout


@pytest.fixture(scope="module", params=IMAGES)
def encoder(request):
    return open_layout(request.param, request)


@pytest.fixture(scope="module")
def batch(encoder, image_files):
    return first_windows(encoder, image_files)


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
