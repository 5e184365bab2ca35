"""Audio files below a folder: which ones count, in what order, and what to say when some are missing."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path

from .clip import DataError

# What libsndfile reads, by the endings in use; where two files share a stem, the earlier ending wins.
EXTENSIONS = (
    *(".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aiff", ".aif", ".aifc", ".au", ".snd", ".caf", ".w64", ".rf64", ".voc"),
    *(".sf", ".nist", ".paf", ".pvf", ".svx", ".avr", ".htk", ".sds", ".wve", ".xi"),
)


def is_audio(name: str) -> bool:
    """By its ending; hidden files (macOS leaves ``._x.wav`` beside ``x.wav``) never count."""
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in EXTENSIONS


def audio_files(folder: Path) -> list[Path]:
    """Every audio file at any depth, sorted by path; hidden folders are passed over."""
    paths: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if not f.startswith(".")]
        paths += [Path(place, name) for name in names if is_audio(name)]
    return sorted(paths)


def by_stem(folder: Path) -> dict[str, Path]:
    """Audio files directly in ``folder`` by their name without its ending; empty where there is no such folder."""
    if not folder.is_dir():
        return {}
    files = [p for p in folder.iterdir() if is_audio(p.name)]
    files.sort(key=lambda p: EXTENSIONS.index(p.suffix.lower()), reverse=True)
    return {p.stem: p for p in files}


def require(name: str, missing: Sequence[str], total: int, place: Path, layout: str) -> None:
    """Refuse a dataset whose own list names files that are not there: results on a part of it would not compare."""
    if missing:
        some = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
        raise DataError(
            f"{name}: {len(missing)} of {total} recordings are missing in {place} ({some}). Unpack the dataset again, or load what "
            f"you have as folder:PATH or as a table. Expected layout:\n{layout}"
        )


def read_csv(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Rows by column name, every cell as text, after a check that the columns are there. A row with more fields than the header is an
    error: everything in it may be in the wrong place."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            header = next(reader, [])
            rows = []
            for cells in reader:
                if len(cells) > len(header):
                    raise DataError(
                        f"{path}: line {reader.line_num} has {len(cells)} fields, the header {len(header)}; quote commas in names"
                    )
                if cells:
                    rows.append(dict(zip(header, cells + [""] * (len(header) - len(cells)), strict=True)))
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a CSV in UTF-8 ({error})") from error
    if not header:
        raise DataError(f"{path}: not a CSV: it is empty")
    if absent := [c for c in columns if c not in header]:
        raise DataError(
            f"{path}: the columns {', '.join(absent)} are missing; it has {', '.join(header) or 'none'}. Is it the right version?"
        )
    if not rows:
        raise DataError(f"{path}: has no rows")
    return rows
