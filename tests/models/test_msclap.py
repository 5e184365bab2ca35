"""Microsoft's checkpoint against a formula that was written from its keys, not from our mapping."""

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2Model

from residual_audio.audio import Waveform
from residual_audio.models import EncoderError, load_encoder
from tests.helpers import msclap_reference as reference


@pytest.fixture(scope="module")
def encoder(msclap_path):
    return load_encoder(msclap_path)


def test_audio_embedding_equals_the_independent_formula(encoder, msclap_path):
    rng = np.random.default_rng(3)
    wave = (0.2 * rng.standard_normal(7 * 44100) * np.linspace(0, 1, 7 * 44100)).astype(np.float32)
    state = torch.load(msclap_path, weights_only=True)["model"]
    expected = reference.audio_embedding(state, wave)
    prepared = encoder.prepare(Waveform(wave, 44100))
    with torch.no_grad():
        ours = encoder.encode(prepared.features, torch.zeros(1, dtype=torch.bool))[0]
    assert prepared.features.shape == (1, 1, 965, 64)
    assert (ours - expected).abs().max() < 1e-5 * expected.abs().max()
    again = encoder.embed([wave], sample_rate=44100)[0]
    assert (again - expected / expected.norm()).abs().max() < 1e-5


def test_text_embedding_is_taken_at_the_last_token_that_is_not_padding(encoder, msclap_path):
    state = torch.load(msclap_path, weights_only=True)["model"]
    text = "rain on a roof"
    ids = encoder.tokenizer(f"{text} <|endoftext|>")["input_ids"]
    gpt2 = GPT2Model(GPT2Config(vocab_size=reference.VOCABULARY, n_positions=80, n_embd=reference.TEXT_WIDTH, n_layer=2, n_head=1)).eval()
    gpt2.load_state_dict(
        {
            k.removeprefix("caption_encoder.base."): v
            for k, v in state.items()
            if k.startswith("caption_encoder.base.") and not k.endswith(".attn.bias")
        }
    )
    with torch.no_grad():
        last = gpt2(torch.tensor([ids])).last_hidden_state[0, -1]
        ours = encoder.encode_text([text, "a much longer text about a church bell that rings"])[0]
    assert (ours - reference.project(state, "caption_encoder.projection", last)).abs().max() < 1e-5


def test_configuration_is_inferred_from_the_shapes(encoder):
    assert encoder.units.heads == ((1, 1), (2, 2), (4, 4), (8, 8))
    assert encoder.units.d_model == (4, 8, 16, 32)
    assert encoder.dim == reference.JOINT
    assert encoder.logit_scale == pytest.approx(1 / 0.07, rel=1e-5)
    assert encoder.module.audio_model.audio_encoder.input_resolutions[0] == (64, 64)


def test_a_checkpoint_without_filters_draws_the_same_ones(encoder, tmp_path, msclap_path):
    state = torch.load(msclap_path, weights_only=True)["model"]
    del state[reference.AUDIO + "logmel_extractor.melW"]
    torch.save({"model": state}, tmp_path / "bare.pth")
    wave = np.random.default_rng(0).standard_normal(44100).astype(np.float32)
    bare = load_encoder(tmp_path / "bare.pth")
    assert bare.filters is None
    assert (bare.embed([wave], sample_rate=44100) - encoder.embed([wave], sample_rate=44100)).abs().max() < 1e-5


def test_2022_is_refused_with_the_reason(tmp_path):
    torch.save({"model": {"audio_encoder.base.conv_block1.conv1.weight": torch.zeros(1)}}, tmp_path / "CLAP_weights_2022.pth")
    with pytest.raises(EncoderError, match=r"2022.*Cnn14.*2023"):
        load_encoder(tmp_path / "CLAP_weights_2022.pth")


@pytest.mark.parametrize("content", [b"", b"not a checkpoint"])
def test_unreadable_checkpoint(tmp_path, content):
    (tmp_path / "x.pth").write_bytes(content)
    with pytest.raises(EncoderError, match="cannot be read"):
        load_encoder(tmp_path / "x.pth")


def test_a_missing_tensor_is_named(tmp_path, msclap_path):
    state = torch.load(msclap_path, weights_only=True)["model"]
    del state[reference.AUDIO + "layers.1.blocks.0.attn.proj.weight"]
    torch.save({"model": state}, tmp_path / "x.pth")
    with pytest.raises(EncoderError, match=r"layers\.1\.blocks\.0\.attention\.output\.dense\.weight"):
        load_encoder(tmp_path / "x.pth")


def test_audio_needs_no_tokenizer(tmp_path, msclap_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    alone = tmp_path / "CLAP_weights_2023.pth"
    alone.write_bytes(msclap_path.read_bytes())
    encoder = load_encoder(alone)
    assert encoder.embed([np.ones(4410, np.float32)], sample_rate=44100).shape == (1, reference.JOINT)
    with pytest.raises(EncoderError, match=r"tokenizer\.json beside"):
        encoder.embed_text(["rain"])
