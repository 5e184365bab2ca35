"""The one shape of results: ``tables`` by name, ``info``, ``errors``, and ``write(folder)``."""

from __future__ import annotations

import json
import math
import platform
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from .spelling import harmless
from .writing import drafted, own_folder

PACKAGES = ("residual-audio", "torch", "transformers", "numpy", "scipy", "soundfile", "soxr")


class Result:
    """What a verb found. ``record`` names the JSON file that says how it was found.

    ``tables``: data frames by name; ``info``: choices and single figures; ``errors``: unreadable clips by id, with the reason.
    """

    record: ClassVar[str]

    if TYPE_CHECKING:

        @property
        def tables(self) -> dict[str, pd.DataFrame]: ...
        @property
        def info(self) -> dict[str, Any]: ...
        @property
        def errors(self) -> dict[str, str]: ...

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__repr__ = Result.__repr__  # type: ignore[method-assign]  # a dataclass would print every array it holds

    def __repr__(self) -> str:
        left = f", {len(self.errors)} clips could not be read" if self.errors else ""
        return f"<{type(self).__name__}: .tables, .info, .errors and .write(folder){left}>"

    def write(self, folder: str | Path) -> Path:
        """``folder/tables/NAME.parquet`` and ``.csv`` for every table, and ``folder/RECORD.json``; returns the folder."""
        folder = Path(folder)
        for name, table in self.tables.items():
            write_table(table, folder / "tables", name)
        write_record(folder / f"{self.record}.json", {**self.info, "errors": self.errors})
        return folder


def write_table(table: pd.DataFrame, folder: Path, name: str, keys: Sequence[str] = ()) -> None:
    """``folder/name.parquet`` and ``folder/name.csv``; an index with a name becomes the first column.

    ``keys``: columns that tell parts of a table apart. Rows of an earlier file whose keys are not in the new table are kept.
    """
    own_folder(folder)
    flat = table.reset_index() if table.index.name else table
    earlier = folder / f"{name}.parquet"
    if keys and earlier.exists():
        old = pd.read_parquet(earlier)
        if set(keys) <= set(old):
            new = set(map(tuple, flat[list(keys)].itertuples(index=False)))
            kept = old[[tuple(row) not in new for row in old[list(keys)].itertuples(index=False)]]
            flat = pd.concat([kept, flat], ignore_index=True) if len(kept) else flat
    with drafted(folder / f"{name}.parquet") as path:
        flat.to_parquet(path, index=False)
    with drafted(folder / f"{name}.csv") as path:
        path.write_text(csv_text(flat))


def csv_text(table: pd.DataFrame) -> str:
    """A table as CSV in which no name of a class or file can act as a formula."""
    words = {c: table[c].map(harmless) for c in table.columns if not pd.api.types.is_numeric_dtype(table[c])}
    return str(table.assign(**words).rename(columns=harmless).to_csv(index=False)) if len(table.columns) else ""


def write_record(path: Path, record: dict[str, Any]) -> None:
    """JSON with the circumstances, whole or not at all."""
    with drafted(path) as draft:
        draft.write_text(json.dumps(without_nan({**circumstances(), **record}), indent=2, default=str, allow_nan=False) + "\n")


def without_nan(value: Any) -> Any:
    """The same with None where a number is NaN or infinite: JSON has neither."""
    if isinstance(value, dict):
        return {key: without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def circumstances() -> dict[str, Any]:
    """What was called, when, with which versions."""
    called = Path(sys.argv[0]).name
    words = ["residual-audio", *sys.argv[1:]] if called.startswith("residual-audio") or called == "__main__.py" else sys.argv
    return {
        "command": shlex.join(words),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), **{p: version(p) for p in PACKAGES}},
    }


def provenance(encoder: Any, dataset: Any) -> dict[str, Any]:
    """The model, its preprocessing and the data, as every record names them."""
    return {
        **identity(encoder),
        "dataset": {
            "name": dataset.name,
            "clips": len(dataset),
            "classes": len(dataset.labels),
            "folds": dataset.folds,
            "notes": dataset.notes,
        },
    }


def identity(encoder: Any) -> dict[str, Any]:
    """The model and its preprocessing."""
    return {
        "model": {"name": encoder.name, "revision": encoder.revision},
        "preprocessing": {**asdict(encoder.policy), "hash": encoder.policy.hash},
        "precision": encoder.precision,
    }
