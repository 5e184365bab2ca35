"""Record what every unit writes, clip by clip, into a run that survives anything."""

from ..models.recording import RecordError, record
from .extract import extract
from .run import Run
from .shard import ExtractionError, Settings
from .store import Store, StoreError

__all__ = ["ExtractionError", "RecordError", "Run", "Settings", "Store", "StoreError", "extract", "record"]
