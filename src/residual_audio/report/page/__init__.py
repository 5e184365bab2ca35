"""A run as one self-contained page: what people look at and listen to instead of CSV."""

from .page import ModelPart, write_report

__all__ = ["ModelPart", "write_report"]
