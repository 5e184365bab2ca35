"""A run as one self-contained page: what people look at and listen to instead of CSV."""

from .live import model_data, start_page
from .make import report
from .model_part import ModelPart
from .page import rendered, write_page

__all__ = ["ModelPart", "model_data", "rendered", "report", "start_page", "write_page"]
