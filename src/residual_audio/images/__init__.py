"""File → RGB → a vision tower's input, deterministic, one policy object recorded in every run."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .decode import EXTENSIONS, ImageError, ImageSource, as_rgb, image_files, is_image
    from .policy import ImagePreprocessing, read_policy

__all__ = ["EXTENSIONS", "ImageError", "ImagePreprocessing", "ImageSource", "as_rgb", "image_files", "is_image", "read_policy"]

# Lazily: whoever only decodes does not wait for torch.
__getattr__, __dir__ = lazily(
    __name__,
    {
        **dict.fromkeys(("EXTENSIONS", "ImageError", "ImageSource", "as_rgb", "image_files", "is_image"), ".decode"),
        **dict.fromkeys(("ImagePreprocessing", "read_policy"), ".policy"),
    },
)
