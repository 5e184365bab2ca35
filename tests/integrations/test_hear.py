"""HEAR's interface, check by check as its description and its validator have them, on every layout that can; and what it means."""

import inspect

import numpy as np
import pytest
import torch

from residual_audio import hear
from residual_audio.audio import Waveform
from residual_audio.models import EncoderError
from residual_audio.models.recording import Keep, recorded

LAYOUTS = ["laion_dir", "fused_dir", "msclap_path", "whisper_dir"]


@pytest.fixture(scope="module", params=LAYOUTS)
def model(request):
    return hear.load_model(str(request.getfixturevalue(request.param))).to("cpu")


def sounds(model, count, seconds):
    return torch.rand(count, int(seconds * model.sample_rate), generator=torch.Generator().manual_seed(0)) * 2 - 1


def test_the_model_says_what_hear_asks(model):
    assert isinstance(model, torch.nn.Module)
    assert model.sample_rate in (16000, 22050, 44100, 48000)
    assert type(model.scene_embedding_size) is int
    assert type(model.timestamp_embedding_size) is int
    assert any(p is q for p in model.parameters() for q in model.encoder.module.parameters()), "moving it would not move the encoder"


def test_scene_embeddings(model):
    embeddings = hear.get_scene_embeddings(sounds(model, 3, 3.74), model)
    assert embeddings.dtype == torch.float32
    assert embeddings.shape == (3, model.scene_embedding_size)
    assert torch.allclose(embeddings.norm(dim=1), torch.ones(3), atol=1e-5)
    assert not embeddings.is_inference()


def test_timestamp_embeddings(model):
    embeddings, timestamps = hear.get_timestamp_embeddings(sounds(model, 2, 2.0), model)
    assert embeddings.dtype == torch.float32
    assert embeddings.shape == (2, 40, model.timestamp_embedding_size)
    assert timestamps.shape == (2, 40)
    steps = torch.diff(timestamps)
    assert steps.mean() <= 50
    assert (steps - steps.mean()).abs().max() < 1e-3
    assert timestamps.min() >= 0
    assert timestamps.max() <= 2000


def test_columns_average_to_the_pooled_output(model):
    wave = Waveform(sounds(model, 1, model.policy.seconds)[0].numpy(), model.sample_rate)
    prepared = model.encoder.prepare(wave)
    with torch.no_grad():
        pooled = recorded(model.encoder, prepared.features[:1], torch.tensor([False]), Keep()).pooled
    assert (model.columns([wave]).mean(1) - pooled).abs().max() < 1e-4 * pooled.abs().max()


def test_what_is_heard_late_is_late():
    """A burst of noise in the seventh second moves the embeddings around it, also in the second window; a whole second is a step of 20."""
    model = hear.load_model()
    rate = model.sample_rate
    seconds = model.policy.seconds
    for start in (0.65 * seconds, 1.3 * seconds):
        quiet = torch.from_numpy(0.01 * np.random.default_rng(0).standard_normal((1, int(2 * seconds * rate)))).float()
        loud = quiet.clone()
        first = int(start * rate)
        loud[0, first : first + rate // 2] *= 50
        before, times = hear.get_timestamp_embeddings(quiet, model)
        after, _ = hear.get_timestamp_embeddings(loud, model)
        moved = (after - before).norm(dim=-1)[0]
        peak = times[0, moved.argmax()] / 1000
        assert start - 0.5 < peak < start + 1.0
    whole = hear.get_scene_embeddings(loud, model)
    assert (whole - hear.get_scene_embeddings(loud[:, : loud.shape[1] // 2], model)).norm() > 1e-2, "the second window is not heard"


def test_the_three_functions_take_what_hear_gives():
    assert [*inspect.signature(hear.load_model).parameters] == ["model_file_path"]
    for function in (hear.get_scene_embeddings, hear.get_timestamp_embeddings):
        assert [*inspect.signature(function).parameters] == ["audio", "model"]


def test_what_cannot_be_is_refused(ast_dir, clip_dir, request):
    with pytest.raises(EncoderError, match="images"):
        hear.load_model(str(clip_dir))
    model = hear.load_model(str(ast_dir))
    assert hear.get_scene_embeddings(sounds(model, 1, 1.0), model).shape == (1, model.scene_embedding_size)
    with pytest.raises(EncoderError, match="no place in time"):
        hear.get_timestamp_embeddings(sounds(model, 1, 1.0), model)
    with pytest.raises(ValueError, match="one length"):
        hear.get_scene_embeddings(torch.zeros(1, 0), model)
