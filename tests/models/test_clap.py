"""LAION's layout against transformers' own ClapModel and ClapFeatureExtractor."""

import numpy as np
import pytest
import soundfile
import soxr
import torch
from transformers import AutoTokenizer, ClapFeatureExtractor, ClapModel

from residual_audio.models import EncoderError, load_encoder
from residual_audio.models.encoders.clap import TINY
from tests.helpers import checkpoints


def by_transformers(folder, waves: list[np.ndarray]) -> torch.Tensor:
    model = ClapModel.from_pretrained(folder, dtype=torch.float32).eval()
    extractor = ClapFeatureExtractor.from_pretrained(folder)
    inputs = extractor(waves, sampling_rate=extractor.sampling_rate, return_tensors="pt")
    inputs["is_longer"] = torch.zeros_like(inputs["is_longer"])
    with torch.no_grad():
        return model.get_audio_features(input_features=inputs["input_features"].float(), is_longer=inputs["is_longer"]).pooler_output


def short_waves(rate: int, seconds=(0.3, 1.7, 9.9)) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [(0.3 * rng.standard_normal(int(rate * s))).astype(np.float32) for s in seconds]


@pytest.mark.parametrize("layout", ["laion_dir", "fused_dir"])
def test_embeddings_equal_transformers(layout, request):
    folder = request.getfixturevalue(layout)
    waves = short_waves(48000)
    ours = load_encoder(folder).embed(waves, sample_rate=48000)
    assert (ours - by_transformers(folder, waves)).abs().max() < 1e-4


def test_full_size_htsat_equals_transformers(tmp_path):
    folder = checkpoints.laion(tmp_path, fused=False, full_size=True)
    encoder, waves = load_encoder(folder), short_waves(48000, (5.0,))
    assert len(encoder.units.where("head")) == 184
    assert encoder.units.d_head == (24, 24, 24, 24)
    assert (encoder.embed(waves, sample_rate=48000) - by_transformers(folder, waves)).abs().max() < 1e-4


def test_tiny_is_a_standard_checkpoint():
    """What is shipped loads with plain transformers, without this package, and means the same."""
    encoder, waves = load_encoder("tiny"), short_waves(16000, (1.0, 4.0))
    assert (encoder.embed(waves, sample_rate=16000) - by_transformers(TINY, waves)).abs().max() < 1e-4
    model, tokenizer = ClapModel.from_pretrained(TINY), AutoTokenizer.from_pretrained(TINY)
    with torch.no_grad():
        theirs = model.get_text_features(**tokenizer(checkpoints.TEXTS, padding=True, return_tensors="pt")).pooler_output
    assert (encoder.embed_text(checkpoints.TEXTS) - theirs).abs().max() < 1e-5
    assert model.dtype == torch.float32


def test_tiny_has_the_topology_of_the_real_encoder_and_is_small():
    units = load_encoder("tiny").units
    assert [len(blocks) for blocks in units.heads] == [2, 2, 6, 2]
    assert [blocks[0] for blocks in units.heads] == [4, 8, 16, 32]
    assert len(units.where("head")) == 184
    assert sum(f.stat().st_size for f in TINY.iterdir()) < 8_000_000


def test_long_clips_of_a_fused_model_use_fixed_chunks(fused_dir):
    encoder = load_encoder(fused_dir)
    wave = short_waves(48000, (31.0,))[0]
    a, b = encoder.policy.prepare(as_wave(wave)), encoder.policy.prepare(as_wave(wave))
    assert a.longer
    assert a.features.shape == (1, 4, 1001, 64)
    assert torch.equal(a.features, b.features)
    assert not encoder.policy.prepare(as_wave(wave[:48000])).longer
    theirs = ClapFeatureExtractor.from_pretrained(fused_dir)(wave, sampling_rate=48000, return_tensors="pt")["input_features"][0, 0]
    assert (a.features[0, 0] - theirs).abs().max() < 1e-3


def as_wave(samples):
    from residual_audio.audio import Waveform

    return Waveform(samples, 48000)


def test_resampling_happens_before_the_model(laion_dir, tmp_path):
    rng = np.random.default_rng(0)
    stereo = 0.2 * rng.standard_normal((22050, 2))
    soundfile.write(tmp_path / "x.wav", stereo, 22050, subtype="FLOAT")
    by_hand = soxr.resample(stereo.astype(np.float32).mean(1), 22050, 48000)
    encoder = load_encoder(laion_dir)
    assert (encoder.embed([tmp_path / "x.wav"]) - encoder.embed([by_hand], sample_rate=48000)).abs().max() < 1e-6


def test_no_tokenizer_is_an_error_only_when_a_text_is_asked_for(laion_dir, tmp_path):
    for file in laion_dir.iterdir():
        if "token" not in file.name:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    encoder = load_encoder(tmp_path)
    assert encoder.embed([np.ones(100, np.float32)], sample_rate=48000).shape == (1, 32)
    with pytest.raises(EncoderError, match="tokenizer"):
        encoder.embed_text(["a dog"])
