"""The preprocessing policy of images: one frozen object that turns a picture into a vision tower's input, and says how.

It is recorded in every run, and its hash keeps results of different policies apart, like that of sounds.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8

from ..audio import Prepared
from ..media import name_of
from .decode import ImageError, ImageSource, as_rgb, check_size, pillow

# As Pillow numbers them, and checkpoints write them.
FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}


@dataclass(frozen=True)
class ImagePreprocessing:
    """RGB → resize → centre crop → (x · scale − mean) / std. No step is random.

    - ``shortest``: the length the shorter edge is resized to, the other in proportion; ``size`` resizes to (height, width) whatever the
      proportions; neither: as it is. Pillow resizes whole grey levels.
    - ``crop``: (height, width) kept from the centre; what an image lacks is filled with black.
    """

    shortest: int | None
    size: tuple[int, int] | None
    crop: tuple[int, int] | None
    resample: int
    scale: float
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def noise(self) -> UInt8[np.ndarray, "height width 3"]:
        """Fixed noise: what two encoders of this policy can be compared on."""
        return np.random.default_rng(0).integers(0, 256, (*self.shape, 3), dtype=np.uint8)

    @property
    def hash(self) -> str:
        """Twelve hex digits that change when anything in the policy changes."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of what the model sees."""
        shape = self.crop or self.size
        if shape is None:
            raise ImageError("the checkpoint's preprocessing neither crops nor resizes to one size, so its images cannot share a batch")
        return shape

    def resized(self, height: int, width: int) -> tuple[int, int]:
        """Height and width after resizing; the longer edge is rounded down."""
        if self.size is not None:
            return self.size
        if self.shortest is None:
            return height, width
        short = min(height, width)
        return int(self.shortest * height / short), int(self.shortest * width / short)

    def pixels(self, source: ImageSource) -> UInt8[np.ndarray, "height width 3"]:
        """The picture in grey levels, resized and cropped."""
        image = as_rgb(source)
        height, width = self.resized(image.height, image.width)
        check_size(height, width, f"{name_of(source)}, resized")
        if (height, width) != (image.height, image.width):
            image = image.resize((width, height), resample=pillow().Image.Resampling(self.resample))
        pixels = np.asarray(image)
        return pixels if self.crop is None else centred(pixels, self.crop)

    def prepare(self, source: ImageSource, filters: None = None) -> Prepared:
        """A picture as the model's input, ``[1, channel, height, width]``."""
        scaled = self.pixels(source).astype(np.float64) * self.scale
        normed = (scaled - np.array(self.mean)) / np.array(self.std)
        return Prepared(torch.from_numpy(normed.astype(np.float32)).permute(2, 0, 1).contiguous()[None], False)


def centred(image: UInt8[np.ndarray, "_ _ 3"], crop: tuple[int, int]) -> UInt8[np.ndarray, "height width 3"]:
    """The middle of an image; an odd pixel of surplus goes below and to the right, one of black above and to the left."""
    lacking = [max(0, want - have) for want, have in zip(crop, image.shape, strict=False)]
    image = np.pad(image, [((n + 1) // 2, n // 2) for n in lacking] + [(0, 0)])
    top, left = ((have - want) // 2 for want, have in zip(crop, image.shape, strict=False))
    return image[top : top + crop[0], left : left + crop[1]]


def read_policy(config: dict[str, Any], default: ImagePreprocessing) -> ImagePreprocessing:
    """The policy that a ``preprocessor_config.json`` describes; what it leaves out is as in ``default``.

    A bare number is the shorter edge where the default resizes that, else a square's side.
    """
    shortest, size = default.shortest, default.size
    if isinstance(config.get("size"), int):
        shortest, size = (config["size"], None) if default.shortest else (None, (config["size"], config["size"]))
    elif config.get("size"):
        given = config["size"]
        if not {"shortest_edge", "height"} & set(given):
            raise ImageError(f"the checkpoint resizes by {given}; known are shortest_edge, or height and width")
        shortest = given.get("shortest_edge")
        size = None if shortest else (given["height"], given["width"])
    if not config.get("do_resize", True):
        shortest = size = None
    crop = config.get("crop_size", default.crop)
    if crop is not None:
        crop = (crop, crop) if isinstance(crop, int) else (crop["height"], crop["width"]) if isinstance(crop, dict) else tuple(crop)
    resample = config.get("resample", default.resample)
    if resample not in FILTERS:
        raise ImageError(f"the checkpoint resizes with filter {resample!r}; Pillow has {', '.join(map(str, FILTERS))}")
    normalised = config.get("do_normalize", True)
    return ImagePreprocessing(
        shortest=shortest,
        size=size,
        crop=crop if config.get("do_center_crop", default.crop is not None) else None,
        resample=int(resample),
        scale=float(config.get("rescale_factor", default.scale)) if config.get("do_rescale", True) else 1.0,
        mean=tuple(config.get("image_mean", default.mean)) if normalised else (0.0, 0.0, 0.0),
        std=tuple(config.get("image_std", default.std)) if normalised else (1.0, 1.0, 1.0),
    )
