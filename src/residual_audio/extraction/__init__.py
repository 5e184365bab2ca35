"""Record what every unit writes, clip by clip, into a run that survives anything."""

from .extract import extract
from .record import RecordError, record
from .run import Run
from .shard import ExtractionError, Settings
from .store import Store, StoreError

__all__ = ["ExtractionError", "RecordError", "Run", "Settings", "Store", "StoreError", "extract", "record"]
