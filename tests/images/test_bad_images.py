"""Every way in which an image can be bad or odd, and what comes of it."""

import numpy as np
import pytest
from PIL import Image

from residual_audio.audio import Prepared, Waveform
from residual_audio.images import ImageError, as_rgb
from residual_audio.media import MediaError
from residual_audio.models.batching import prepared_ahead
from residual_audio.models.encoders.vit import DEFAULT as POLICY
from tests.helpers.pictures import picture


def test_missing_directory_and_empty(tmp_path):
    (tmp_path / "x.png").touch()
    for path, says in ((tmp_path / "gone.png", "no such file"), (tmp_path, "is a directory"), (tmp_path / "x.png", "is empty")):
        with pytest.raises(ImageError, match=says):
            POLICY.prepare(path)


def test_text_renamed(tmp_path):
    (tmp_path / "x.png").write_text("Dear diary, today I renamed a text file.\n" * 40)
    with pytest.raises(ImageError, match="not an image that Pillow can read"):
        POLICY.prepare(tmp_path / "x.png")


@pytest.mark.parametrize("ending", ["png", "jpg", "bmp"])
def test_truncated(tmp_path, ending):
    picture("square", "red", 0).save(tmp_path / f"whole.{ending}")
    content = (tmp_path / f"whole.{ending}").read_bytes()
    (tmp_path / f"cut.{ending}").write_bytes(content[: len(content) // 2])
    with pytest.raises(ImageError, match="breaks off while decoding"):
        POLICY.prepare(tmp_path / f"cut.{ending}")


def test_a_bomb_is_refused(tmp_path, monkeypatch):
    picture("square", "red", 0).save(tmp_path / "x.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(ImageError, match="decoding"):
        POLICY.prepare(tmp_path / "x.png")


def test_what_is_no_image():
    for source in (Waveform(np.zeros(10, np.float32), 16000), np.zeros((4, 4), np.float32), np.zeros((4, 4, 2), np.uint8)):
        with pytest.raises(ImageError, match=r"cannot read an image|an image array is"):
            POLICY.prepare(source)


def test_they_are_recorded_like_broken_sounds(tmp_path):
    """Of one family, so that whoever goes on after an unreadable sound goes on after an unreadable image."""
    picture("square", "red", 0).save(tmp_path / "x.png")
    good, bad = prepared_ahead([tmp_path / "x.png", tmp_path / "gone.png"], POLICY.prepare, 2)
    assert isinstance(good, Prepared)
    assert isinstance(bad, MediaError)


def test_orientation_is_obeyed(tmp_path):
    image = picture("triangle", "green", 1)
    turned = image.transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned a quarter clockwise
    turned.save(tmp_path / "x.png", exif=exif)
    assert np.array_equal(np.asarray(as_rgb(tmp_path / "x.png")), np.asarray(image))


def test_sixteen_bits_transparency_frames_and_floats(tmp_path):
    levels = np.arange(256, dtype=np.uint8).reshape(16, 16)
    Image.fromarray(levels.astype(np.uint16) * 257).save(tmp_path / "deep.png")
    assert np.array_equal(np.asarray(as_rgb(tmp_path / "deep.png"))[..., 0], levels)
    clear = np.zeros((4, 4, 4), np.uint8)
    assert np.asarray(as_rgb(clear)).min() == 255, "what is transparent is white"
    frames = [picture("circle", c, 0).convert("P") for c in ("red", "blue")]
    frames[0].save(tmp_path / "x.gif", save_all=True, append_images=frames[1:])
    assert np.array_equal(np.asarray(as_rgb(tmp_path / "x.gif")), np.asarray(frames[0].convert("RGB")))
    with pytest.raises(ImageError, match="floating-point"):
        as_rgb(Image.fromarray(np.ones((4, 4), np.float32)))
