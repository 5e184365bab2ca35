"""Our log-mel against the extractors of transformers, which we did not write."""

import numpy as np
import pytest
import torch
from transformers import ASTFeatureExtractor, ClapFeatureExtractor, WhisperFeatureExtractor
from transformers.audio_utils import mel_filter_bank

from residual_audio.audio import MelSpec, Preprocessing, Waveform, mel_filters
from residual_audio.audio.mel import frames_to_make, log_mel
from residual_audio.models import load_encoder
from residual_audio.models.encoders.clap import clap_policy

RNG = np.random.default_rng(0)


def wave(seconds: float, rate: int) -> np.ndarray:
    t = np.arange(int(seconds * rate)) / rate
    return (0.4 * np.sin(2 * np.pi * 440 * t**1.2) + 0.01 * RNG.standard_normal(len(t))).astype(np.float32)


@pytest.mark.parametrize("truncation", ["rand_trunc", "fusion"])
@pytest.mark.parametrize("padding", ["repeatpad", "repeat", "pad"])
@pytest.mark.parametrize("seconds", [0.01, 0.7, 3.3, 10.0])
def test_clap(truncation, padding, seconds):
    extractor = ClapFeatureExtractor(truncation=truncation, padding=padding, frequency_min=50)
    samples = wave(seconds, 48000)
    theirs = extractor(samples, sampling_rate=48000, return_tensors="pt")["input_features"][0]
    ours = clap_policy(extractor, fusion=truncation == "fusion").prepare(Waveform(samples, 48000)).features[0]
    assert ours.shape == theirs.shape
    loud = theirs > -60  # below that, single and double precision differ in what is only rounding noise
    assert (ours - theirs)[loud].abs().max() < 5e-3
    assert (ours - theirs).abs().mean() < 1e-2


def test_whisper(whisper_dir):
    samples = wave(10.0, 16000)
    theirs = WhisperFeatureExtractor.from_pretrained(whisper_dir)(samples, sampling_rate=16000, return_tensors="pt").input_features[0]
    ours = load_encoder(whisper_dir).prepare(Waveform(samples, 16000)).features[0, 0]
    assert (ours.T - theirs).abs().max() < 1e-3


def test_ast(ast_dir):
    samples = wave(2.56, 16000)
    theirs = ASTFeatureExtractor.from_pretrained(ast_dir)(samples, sampling_rate=16000, return_tensors="pt").input_values[0]
    ours = load_encoder(ast_dir).prepare(Waveform(samples, 16000)).features[0, 0]
    assert ours.shape == theirs.shape == (256, 128)
    assert (ours - theirs).abs().max() < 2e-3


@pytest.mark.parametrize(("scale", "normalised"), [("htk", False), ("slaney", True), ("slaney", False), ("kaldi", False)])
def test_filterbanks(scale, normalised):
    spec = MelSpec(n_fft=1024, hop=320, mels=64, filter_rate=32000, f_min=50.0, f_max=14000.0, scale=scale, normalised=normalised)
    theirs = mel_filter_bank(
        513, 64, 50.0, 14000.0, 32000, norm="slaney" if normalised else None, mel_scale=scale, triangularize_in_mel_space=scale == "kaldi"
    )
    assert np.abs(mel_filters(spec).numpy() - theirs).max() < 1e-7


def test_long_input_is_framed_in_parts_without_a_seam():
    spec = MelSpec(n_fft=256, hop=16, mels=8, filter_rate=8000, f_min=50.0, f_max=4000.0)
    policy = Preprocessing(8000, 8000 * 40, spec)
    samples = wave(40.0, 8000)
    whole = policy.prepare(Waveform(samples, 8000)).features[0, 0]
    assert len(whole) > 8192
    start = 16 * 8000
    part = Preprocessing(8000, 8000, spec).prepare(Waveform(samples[start : start + 8000], 8000)).features[0, 0]
    assert torch.allclose(whole[start // 16 + 20 : start // 16 + 480], part[20:480], atol=1e-3)


@pytest.mark.parametrize("pad", ["repeatpad", "repeat"])
@pytest.mark.parametrize("samples", [480 * 3, 480 * 250, 480 * 250 + 7, 240_000, 100])
@pytest.mark.parametrize("centred", [True, False])
def test_frames_of_a_repeated_clip_are_made_once_and_are_the_same(pad, samples, centred):
    """Against the spectrogram of the repeated waveform, every frame of which is made."""
    spec = MelSpec(n_fft=1024, hop=480, mels=64, filter_rate=48000, f_min=50.0, f_max=14000.0, centred=centred)
    policy = Preprocessing(48000, 480_000, spec, pad=pad)
    short = wave(samples / 48000, 48000)[:samples]
    whole = log_mel(torch.from_numpy(policy.fit(short)), spec)
    ours = policy.prepare(Waveform(short, 48000)).features[0, 0]
    assert ours.shape == whole.shape
    assert (ours - whole).abs().max() < 1e-4
    spared = frames_to_make(len(whole), spec, samples, 480_000 // samples * samples if pad == "repeatpad" else 480_000)
    assert (spared is None) == bool(samples % 480)
    assert spared is None or len(spared[0]) < samples // 480 + 10
