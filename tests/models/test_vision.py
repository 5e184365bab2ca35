"""Vision towers give what transformers gives; what does not fit is told."""

import json
import shutil

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, CLIPModel, Dinov2Model, ViTModel

from residual_audio.models import EncoderError, load_encoder
from residual_audio.options import OptionError
from tests.helpers import checkpoints
from tests.helpers.pictures import picture

TEXTS = ["a photo of a red square", "blue", "a green circle, far away"]


def by_transformers(kind, folder, pixels):
    model = kind.from_pretrained(folder).eval()
    with torch.inference_mode():
        return model(pixel_values=pixels).last_hidden_state[:, 0]


def test_clip_is_transformers_clip(clip_dir, image_files):
    encoder, model = load_encoder(clip_dir), CLIPModel.from_pretrained(clip_dir).eval()
    pixels = torch.cat([encoder.prepare(f).features for f in image_files])
    tokens = AutoTokenizer.from_pretrained(clip_dir)(TEXTS, padding=True, return_tensors="pt")
    with torch.inference_mode():
        theirs = model(pixel_values=pixels, **tokens)
    assert (encoder.embed(image_files) - theirs.image_embeds).abs().max() < 1e-5
    assert (encoder.embed_text(TEXTS) - theirs.text_embeds).abs().max() < 1e-5
    logits = encoder.logit_scale * encoder.embed(image_files) @ encoder.embed_text(TEXTS).T
    assert (logits - theirs.logits_per_image).abs().max() < 1e-4
    assert (encoder.embed_text(["x" * 500]) - encoder.embed_text(["x" * 400])).abs().max() < 1e-6, "long texts are cut, not refused"


@pytest.mark.parametrize("swiglu", [False, True])
def test_dinov2_is_transformers_dinov2_with_its_layer_scale_absorbed(tmp_path, image_files, swiglu):
    folder = checkpoints.dinov2(tmp_path, swiglu)
    encoder = load_encoder(folder)
    pixels = torch.cat([encoder.prepare(f).features for f in image_files])
    theirs = by_transformers(Dinov2Model, folder, pixels)
    with torch.inference_mode():
        ours = encoder.encode(pixels, torch.zeros(len(pixels), dtype=torch.bool))
    assert (ours - theirs).abs().max() < 1e-5 * theirs.abs().max()
    scales = [v for k, v in encoder.module.state_dict().items() if k.endswith("lambda1")]
    assert len(scales) == 6
    assert all(torch.equal(s, torch.ones_like(s)) for s in scales)
    assert not torch.equal(Dinov2Model.from_pretrained(folder).encoder.layer[0].layer_scale1.lambda1, scales[0])


def test_vit_is_transformers_vit_and_keeps_its_pooler(vit_dir, image_files, tmp_path):
    encoder = load_encoder(vit_dir)
    pixels = torch.cat([encoder.prepare(f).features for f in image_files])
    with torch.inference_mode():
        ours = encoder.encode(pixels, torch.zeros(len(pixels), dtype=torch.bool))
    assert (ours - by_transformers(ViTModel, vit_dir, pixels)).abs().max() < 1e-6
    encoder.save(tmp_path)
    before, after = ViTModel.from_pretrained(vit_dir).state_dict(), ViTModel.from_pretrained(tmp_path).state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[k], after[k]) for k in before)


def test_a_pooler_that_is_not_there_is_not_made_up(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    load_encoder(checkpoints.vit(tmp_path / "a", pooler=False)).save(tmp_path / "b")
    _, info = ViTModel.from_pretrained(tmp_path / "b", output_loading_info=True)
    assert {k.split(".")[0] for k in info["missing_keys"]} == {"pooler"}


def test_newer_checkpoints_keep_the_policy_inside_the_processor(clip_dir, tmp_path):
    folder = tmp_path / "new"
    shutil.copytree(clip_dir, folder)
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    (folder / "preprocessor_config.json").unlink()
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": settings, "processor_class": "CLIPProcessor"}))
    assert load_encoder(folder).policy == load_encoder(clip_dir).policy
    (folder / "processor_config.json").unlink()
    with pytest.raises(EncoderError, match=r"has no preprocessor_config.json"):
        load_encoder(folder)


def test_sizes_that_do_not_meet_are_told(vit_dir, tmp_path):
    folder = tmp_path / "vit"
    shutil.copytree(vit_dir, folder)
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    (folder / "preprocessor_config.json").write_text(json.dumps({**settings, "size": {"height": 64, "width": 64}}))
    with pytest.raises(EncoderError, match="64 × 64, but the model takes 32 × 32"):
        load_encoder(folder)


def test_what_is_about_sounds_is_refused(clip_dir):
    with pytest.raises(OptionError, match="takes images"):
        load_encoder(clip_dir, crop="centre")
    with pytest.raises(EncoderError, match="have no sample rate"):
        load_encoder(clip_dir).embed(["x.png"], sample_rate=16000)


def test_images_in_memory(clip_dir):
    encoder = load_encoder(clip_dir)
    image = picture("circle", "red", 5)
    assert torch.equal(encoder.embed([image]), encoder.embed([np.asarray(image)]))
    assert encoder.embed([]).shape == (0, encoder.dim)
