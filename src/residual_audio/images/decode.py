"""Any image file or array → one RGB picture of 8 bits per channel, the same bits every time."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..media import MediaError, regular_file
from ..spelling import printable

if TYPE_CHECKING:
    from PIL import Image

# What Pillow reads without help, by the endings in use.
EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".jp2")
# By Pillow's names. No other is opened, whatever a file is called: PostScript would be handed to Ghostscript.
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "JPEG2000")
# More is refused, before decoding and before resizing: a file of 300 bytes can ask for gigabytes.
MOST_PIXELS = 2**27
# A path, a Pillow image, or an array [row, column] or [row, column, channel] of whole numbers from 0 to 255.
ImageSource = Any


class ImageError(MediaError):
    """An image that cannot be used; the message names it and says why."""


def pillow() -> Any:
    """The package PIL, or a word on how to get it."""
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError as error:
        raise ImageError('images are read by Pillow, which is not installed: pip install "residual-audio[images]"') from error
    return PIL


def is_image(name: str) -> bool:
    """By its ending; hidden files never count."""
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in EXTENSIONS


def image_files(folder: Path) -> list[Path]:
    """Every image file at any depth, sorted by path; hidden folders are passed over."""
    files = []
    for place, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if not f.startswith(".")]
        files += [Path(place, name) for name in names if is_image(name)]
    return sorted(files)


def as_rgb(source: ImageSource) -> Image.Image:
    """The picture upright (as its EXIF says), transparency on white, 16 bits brought to 8, the first frame of several."""
    if isinstance(source, str | Path):
        return read_rgb(Path(source))
    if isinstance(source, np.ndarray):
        return to_rgb(from_array(source), "array")
    if isinstance(source, pillow().Image.Image):
        return to_rgb(source, "image")
    raise ImageError(f"cannot read an image from {type(source).__name__}; pass a path, a Pillow image or an array of 8-bit pixels")


def read_rgb(path: Path) -> Image.Image:
    """Decode a file whole, or say clearly what is wrong with it."""
    regular_file(path, ImageError)
    pil, name = pillow(), printable(str(path))
    try:
        with warnings.catch_warnings(), pil.Image.open(path, formats=FORMATS) as image:
            warnings.simplefilter("ignore")  # Pillow's own limit warns; ours below refuses
            check_size(image.height, image.width, name)
            image.load()
            return to_rgb(image, name)
    except ImageError:
        raise
    except pil.UnidentifiedImageError as error:
        raise ImageError(f"{name}: not an image that Pillow can read (this encoder takes images)") from error
    except Exception as error:  # decoders of damaged files raise anything
        raise ImageError(f"{name}: breaks off while decoding ({printable(str(error))})") from error


def check_size(height: int, width: int, name: str) -> None:
    if height * width > MOST_PIXELS:
        raise ImageError(f"{name}: {height:,} × {width:,} pixels are more than {MOST_PIXELS:,}; make it smaller, or cut it")


def to_rgb(image: Image.Image, name: str) -> Image.Image:
    pil = pillow()
    image = pil.ImageOps.exif_transpose(image)
    if image.mode == "F":
        raise ImageError(f"{name}: holds floating-point pixels, whose white is not known; save it with 8 or 16 bits per channel")
    if image.mode.startswith("I"):
        # Pillow would clip at 255; 65535 is white.
        image = pil.Image.fromarray((np.asarray(image).clip(0, 65535) / 257 + 0.5).astype(np.uint8))
    if "A" in image.getbands() or image.info.get("transparency") is not None:
        image = image.convert("RGBA")
        image = pil.Image.alpha_composite(pil.Image.new("RGBA", image.size, (255, 255, 255, 255)), image)
    return image.convert("RGB")


def from_array(array: np.ndarray) -> Image.Image:
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)) or 0 in array.shape:
        raise ImageError(
            f"an image array is [row, column] or [row, column, channel] in uint8 with 1, 3 or 4 channels, got {array.dtype} {array.shape}"
        )
    return pillow().Image.fromarray(array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array)
