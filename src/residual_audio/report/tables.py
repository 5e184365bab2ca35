"""Tables as files: Parquet for programs, CSV for people."""

from __future__ import annotations

from pathlib import Path

import pandas as pd


def write_table(table: pd.DataFrame, folder: Path, name: str) -> None:
    """``folder/name.parquet`` and ``folder/name.csv``; an index with a name becomes the first column."""
    folder.mkdir(parents=True, exist_ok=True)
    flat = table.reset_index() if table.index.name else table
    flat.to_parquet(folder / f"{name}.parquet", index=False)
    flat.to_csv(folder / f"{name}.csv", index=False)
