"""Names, paths and what is said when they lead nowhere."""

import json

import pytest
import torch

from residual_audio.models import ENCODERS, EncoderError, Loading, known_models, load_encoder
from residual_audio.models.encoders.whisper import WhisperEncoder
from residual_audio.options import OptionError
from tests.helpers.layouts import ALL, open_layout


def test_a_misspelt_name_gets_a_suggestion():
    with pytest.raises(EncoderError, match="did you mean tiny"):
        load_encoder("tinny")


def test_a_hub_name_offline_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(EncoderError, match="local"):
        load_encoder("laion/clap-htsat-unfused")
    with pytest.raises(EncoderError, match=r"CLAP_weights_2023\.pth.*local path"):
        load_encoder("msclap-2023")


def test_a_directory_without_config(tmp_path):
    with pytest.raises(EncoderError, match=r"config\.json"):
        load_encoder(tmp_path)


def test_a_model_of_another_kind(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(EncoderError, match="'bert' is not supported") as caught:
        load_encoder(tmp_path)
    assert all(t in str(caught.value) for kind in ENCODERS.values() for t in (*kind.model_types, *kind.suffixes))


def test_a_missing_pth(tmp_path):
    with pytest.raises(EncoderError, match="no such file"):
        load_encoder(tmp_path / "CLAP_weights_2023.pth")


def test_every_known_model_says_what_it_needs():
    assert {"tiny", "msclap-2023", "laion/clap-htsat-unfused", "laion/larger_clap_music_and_speech"} <= {m.name for m in known_models()}
    assert all(m.what and m.needs for m in known_models())
    assert all(kind.known for kind in ENCODERS.values())


def test_length_policy_can_be_changed(laion_dir):
    assert load_encoder(laion_dir, crop="windows", pad="pad").policy.crop == "windows"
    assert load_encoder(laion_dir, crop="windows").policy.hash != load_encoder(laion_dir).policy.hash
    with pytest.raises(OptionError, match="one of start, centre, windows"):
        load_encoder(laion_dir, crop="middle")


@pytest.mark.parametrize("layout", ALL)
def test_an_option_that_an_encoder_does_not_read_is_refused(layout, request):
    """And the message names the encoders that do; `fast` is fine everywhere."""
    encoder = open_layout(layout, request, fast=False)
    options = {"seconds": 2.0, "crop": "centre", "pad": "pad"}
    read = {"crop", "pad"} if encoder.media == "sounds" else set()
    read |= {"seconds"} if layout == "whisper_dir" else set()
    read -= {"crop"} if layout == "fused_dir" else set()
    sounds = "read by clap, laion, msclap, whisper, ast"
    readers = {"seconds": "read by whisper", "crop": f"{sounds}|sees the whole clip", "pad": sounds}
    for name, value in options.items():
        if name in read:
            assert open_layout(layout, request, **{name: value}).policy != encoder.policy
        else:
            with pytest.raises(OptionError, match=readers[name]):
                open_layout(layout, request, **{name: value})


def test_how_it_was_opened_is_kept(whisper_dir, monkeypatch):
    monkeypatch.chdir(whisper_dir.parent)
    loading = load_encoder(whisper_dir.name, seconds=2.5, pad="pad").loading
    assert (loading.source, loading.address) == (whisper_dir.name, str(whisper_dir))
    assert loading.options == Loading(seconds=2.5, pad="pad")
    assert load_encoder("tiny").loading.address == "tiny"


def test_whisper_window(whisper_dir):
    encoder = load_encoder(whisper_dir, seconds=2.5)
    assert isinstance(encoder, WhisperEncoder)
    assert encoder.policy.samples == 40000
    assert encoder.module.embed_positions.weight.shape[0] == 125
    with pytest.raises(EncoderError, match="at most 10 s"):
        load_encoder(whisper_dir, seconds=30)


def test_the_revision_follows_the_weights(laion_dir, tmp_path):
    before = load_encoder(laion_dir).revision
    for file in laion_dir.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    same = load_encoder(tmp_path)
    assert same.revision == before
    with torch.no_grad():
        same.module.logit_scale_a.add_(1)
    same.module.save_pretrained(tmp_path)
    assert load_encoder(tmp_path).revision != before
