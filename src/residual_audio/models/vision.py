"""What vision towers share: images in the place of sounds, one resolution, a class token that is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from ..images import ImageError, ImagePreprocessing, read_policy
from .encoder import EncoderError, StageSite
from .files import companion, write_pretrained
from .isotropic import IsotropicEncoder

BILINEAR, BICUBIC = 2, 3
GREY_LEVEL = 1 / 255
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Newer checkpoints keep the image part inside the processor's file.
POLICY_FILES = ("preprocessor_config.json", "processor_config.json")


def image_policy(source: str, default: ImagePreprocessing) -> ImagePreprocessing:
    """The checkpoint's own preprocessing; what its file leaves out is as in ``default``."""
    for name in POLICY_FILES:
        path = companion(source, name)
        if path is not None:
            config: dict[str, Any] = json.loads(path.read_text())
            try:
                return read_policy(config.get("image_processor", config), default)
            except ImageError as error:
                raise EncoderError(f"{source}: {error}") from error
    raise EncoderError(f"{source}: has no {' or '.join(POLICY_FILES)}; copy it from where the checkpoint came from")


class VisionEncoder(IsotropicEncoder):
    """An encoder whose clips are images. ``module`` is transformers' own; token 0 is the class token, patches follow row by row."""

    source: str
    module: PreTrainedModel
    policy: ImagePreprocessing

    def token_stage(self, patch: int, expected: tuple[int, int] | None = None) -> tuple[StageSite, ...]:
        """The class token and the patches as one stage; ``expected`` is the only size that the model takes, if it takes but one."""
        height, width = self.policy.shape
        if expected is not None and (height, width) != expected:
            raise EncoderError(
                f"{self.name}: its preprocessing makes images of {height} × {width}, but the model takes {expected[0]} × {expected[1]}; "
                "correct the sizes in preprocessor_config.json"
            )
        return (StageSite((1, 1 + (height // patch) * (width // patch))),)

    def write(self, folder: Path) -> Path:
        """Loads with the plain ``from_pretrained`` of the class it came from."""
        return write_pretrained(self.module, self.source, folder)
