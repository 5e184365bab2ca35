"""A CSV or Parquet table of your own: one row per clip (a sound or an image) or per caption of one, columns by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ..clip import Clip, DataError, Dataset, in_folds, make_dataset
from ..files import EXTENSIONS, read_csv
from ..registry import DATASETS, Own, below
from ..synthetic import PREFIX

ENDINGS = (".csv", ".parquet")
CAPTION = re.compile(r"caption(_\d+)?")


def load(
    file: str | Path,
    root: str | Path | None = None,
    path: str = "path",
    label: str = "label",
    id: str | None = None,
    fold: str | None = None,
    group: str | None = None,
    caption: str | Sequence[str] | None = None,
    audio: str | Path | None = None,
    seed: int = 0,
) -> Dataset:
    """Rows with a ``path`` (relative ones start at ``root``, or at the table's folder) and a ``label``.

    ``id``, ``fold``, ``group`` and ``caption`` (one column or several) name further columns; columns of exactly these names, and
    ``caption_1``, ``caption_2``, …, are used unasked. Without ids the paths serve; without folds five stratified ones are drawn with
    ``seed``, which keep groups together. A row with an empty group stands for itself. Captions may also have a row each: rows that differ
    in their captions only are one clip. ``audio``: the folder that paths start at instead, where a file may have another ending than in
    the table. Whether a file exists is not looked at otherwise: a run records what it could not decode, clip by clip.
    """
    table = Path(file).expanduser() if Path(file).expanduser().is_file() else below(root, file)
    rows = read_rows(table)
    columns = list(rows[0])

    def column(name: str | None, default: str) -> str | None:
        if name is not None and name not in columns:
            raise DataError(f'{table}: no column {name!r}; the columns are {", ".join(columns)}. Name yours: {default}="…" (--{default})')
        return name or (default if default in columns else None)

    column(path, "path")
    column(label, "label")
    id_column, fold_column, group_column = column(id, "id") or path, column(fold, "fold"), column(group, "group")
    named = [caption] if isinstance(caption, str) else caption
    caption_columns = [c for c in columns if CAPTION.fullmatch(c)] if named is None else [c for c in named if column(c, "caption")]
    for needed in (path, label, id_column, fold_column or path):
        if empty := [i for i, row in enumerate(rows, start=1) if row[needed] == ""]:
            raise DataError(f"{table}: {len(empty)} rows have an empty {needed!r}, the first is row {empty[0]} (the header not counted)")

    folds = fold_numbers(table, fold_column, rows) if fold_column else [-1] * len(rows)
    clips = [
        Clip(
            id=row[id_column],
            path=resolved(table.parent if root is None else Path(root).expanduser(), row[path], audio),
            label=row[label],
            fold=number,
            group=row[group_column] if group_column else "",
            captions=tuple(row[c] for c in caption_columns if row[c]),
        )
        for row, number in zip(rows, folds, strict=True)
    ]
    if caption_columns:
        clips = together(clips)
    if fold_column:
        return make_dataset(f"table:{table}", clips, folds="official")
    return make_dataset(f"table:{table}", in_folds(clips, seed), folds="stratified", fold_seed=seed)


def read_rows(table: Path) -> list[dict[str, str]]:
    """Every cell as text, missing ones as ""; a label "None" or "NA" stays what it is."""
    import pandas

    if not table.is_file():
        raise DataError(f"table: there is no file {table}")
    if table.suffix.lower() == ".parquet":
        frame = pandas.read_parquet(table)
    else:
        return read_csv(table, ())
    if not len(frame):
        raise DataError(f"{table}: has no rows")
    text = frame.astype(object).where(frame.notna(), "").map(str)
    return text.rename(columns=str).to_dict("records")


def resolved(home: Path, written: str, audio: str | Path | None) -> str:
    if written.startswith(PREFIX):
        return written
    if audio is None:
        return str(home / Path(written).expanduser())
    file = Path(audio).expanduser() / written
    endings = (ending for ending in EXTENSIONS if file.with_suffix(ending).exists())
    return str(file if file.exists() else file.with_suffix(next(endings, file.suffix)))


def together(clips: Iterable[Clip]) -> list[Clip]:
    """Rows that differ in their captions only are one clip, which has them all."""
    captions: dict[Clip, list[str]] = {}
    for clip in clips:
        captions.setdefault(replace(clip, captions=()), []).extend(clip.captions)
    return [replace(clip, captions=tuple(own)) for clip, own in captions.items()]


def fold_numbers(table: Path, column: str, rows: list[dict[str, str]]) -> list[int]:
    """Whole numbers as they are; "2.0" is one too, because tables with gaps elsewhere are often saved that way. Words (train, test) are
    numbered from one in the order of the alphabet."""
    cells = [row[column] for row in rows]
    try:
        return [int(cell.removesuffix(".0")) for cell in cells]
    except ValueError as error:
        if any(re.match(r"[-\d.]", cell) for cell in cells):
            raise DataError(f"{table}: the folds in {column!r} have to be whole numbers, or words ({error})") from error
        number = {word: i for i, word in enumerate(sorted(set(cells)), start=1)}
        return [number[cell] for cell in cells]


HELP = "your own CSV or Parquet with the columns path and label (and id, fold, group, caption)"
DATASETS.add(Own("table", "PATH", HELP, load, takes=lambda path: path.suffix.lower() in ENDINGS))
