"""File → RGB → a vision tower's input, deterministic, one policy object recorded in every run."""

from .decode import EXTENSIONS, ImageError, ImageSource, as_rgb, image_files, is_image
from .policy import ImagePreprocessing, read_policy

__all__ = ["EXTENSIONS", "ImageError", "ImagePreprocessing", "ImageSource", "as_rgb", "image_files", "is_image", "read_policy"]
