"""Our image front end against transformers' own processors; the same bits on every call."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import BitImageProcessorPil, CLIPImageProcessorPil, ViTImageProcessorPil

from residual_audio.images import ImageError, ImagePreprocessing, read_policy
from residual_audio.models.encoders.clip import DEFAULT as CLIP
from residual_audio.models.encoders.dinov2 import DEFAULT as DINO
from residual_audio.models.encoders.vit import DEFAULT as VIT
from tests.helpers.pictures import picture

SMALL = {"size": {"shortest_edge": 40}, "crop_size": {"height": 32, "width": 30}}
# Ours, and the processor whose settings it must read.
PAIRS = {
    "clip as it is": (CLIP, CLIPImageProcessorPil()),
    "clip, small": (CLIP, CLIPImageProcessorPil(**SMALL)),
    "clip, lanczos, no crop": (CLIP, CLIPImageProcessorPil(size={"height": 31, "width": 45}, do_center_crop=False, resample=1)),
    "clip, crop above the edge": (CLIP, CLIPImageProcessorPil(size={"shortest_edge": 20}, crop_size={"height": 33, "width": 27})),
    "clip, not resized": (CLIP, CLIPImageProcessorPil(do_resize=False, crop_size={"height": 25, "width": 25})),
    "clip, grey levels": (CLIP, CLIPImageProcessorPil(**SMALL, do_rescale=False)),
    "vit as it is": (VIT, ViTImageProcessorPil()),
    "vit, not normalised": (VIT, ViTImageProcessorPil(size={"height": 32, "width": 32}, do_normalize=False)),
    "dinov2": (DINO, BitImageProcessorPil(**SMALL, image_mean=list(DINO.mean), image_std=list(DINO.std))),
}


@pytest.mark.parametrize("name", PAIRS)
def test_equal_to_transformers(name, image_files):
    """To rounding of float32: the grey levels are the same, because both resize with Pillow."""
    default, theirs = PAIRS[name]
    policy = read_policy(theirs.to_dict(), default)
    scale = float(np.abs(np.array([[0, 255 * policy.scale]]) - np.array(policy.mean)[:, None]).max() / min(policy.std))
    for path in image_files:
        image = Image.open(path)
        if "A" not in image.getbands() and image.mode != "P":
            image = image.convert("RGB")
        elif not theirs.do_convert_rgb:
            continue  # ViT's leaves transparency to its user
        expected = theirs(image, return_tensors="pt")["pixel_values"]
        ours = policy.prepare(path).features
        assert ours.shape == expected.shape
        assert (ours - expected).abs().max() <= 1e-6 * scale, path.name


def test_what_a_file_leaves_out_is_the_default():
    assert read_policy({}, CLIP) == CLIP
    assert read_policy({"size": 64, "crop_size": 48}, CLIP) == replace(CLIP, shortest=64, crop=(48, 48))
    assert read_policy({"size": 64}, VIT) == replace(VIT, size=(64, 64))
    assert read_policy({"do_center_crop": False}, DINO).crop is None


def test_what_cannot_be_followed_is_told():
    with pytest.raises(ImageError, match="shortest_edge, or height and width"):
        read_policy({"size": {"longest_edge": 100}}, CLIP)
    with pytest.raises(ImageError, match="filter 9"):
        read_policy({"resample": 9}, CLIP)
    with pytest.raises(ImageError, match="cannot share a batch"):
        _ = replace(CLIP, crop=None).shape


def test_the_hash_tells_policies_apart_and_is_stable():
    changes = [{"shortest": 225}, {"size": (2, 2)}, {"crop": (3, 3)}, {"resample": 2}, {"scale": 1.0}, {"mean": (0.0, 0.0, 0.0)}]
    assert len({p.hash for p in (CLIP, VIT, DINO, *(replace(CLIP, **c) for c in changes))}) == 3 + len(changes)
    assert CLIP.hash == ImagePreprocessing(**vars(CLIP)).hash


def test_paths_images_and_arrays_are_one(tmp_path):
    image = picture("circle", "blue", 3)
    image.save(tmp_path / "x.png")
    one = CLIP.prepare(tmp_path / "x.png").features
    for other in (str(tmp_path / "x.png"), image, np.asarray(image)):
        assert torch.equal(CLIP.prepare(other).features, one)
    assert one.shape == (1, 3, 224, 224)
