"""A run as one self-contained page: what people look at and listen to instead of CSV."""

from .make import report
from .model_part import ModelPart
from .page import write_page

__all__ = ["ModelPart", "report", "write_page"]
