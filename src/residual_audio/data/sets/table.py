"""A CSV or Parquet table of your own: one row per clip (a sound or an image), columns by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..clip import Clip, DataError, Dataset, in_folds, make_dataset
from ..registry import DATASETS, Own, below
from ..synthetic import PREFIX

ENDINGS = (".csv", ".parquet")


def load(
    file: str | Path,
    root: str | Path | None = None,
    path: str = "path",
    label: str = "label",
    id: str | None = None,
    fold: str | None = None,
    group: str | None = None,
    caption: str | Sequence[str] | None = None,
    seed: int = 0,
) -> Dataset:
    """Rows with a ``path`` (relative ones start at the table's folder) and a ``label``.

    ``id``, ``fold``, ``group`` and ``caption`` (one column or several) name further columns; columns of exactly these names are
    used unasked. Without ids the paths serve; without folds five stratified ones are drawn with ``seed``, which keep groups together.
    A row with an empty group stands for itself. Whether a file exists is not looked at here: a run records what it could not decode,
    clip by clip.
    """
    table = below(root, file)
    rows = read_rows(table)
    columns = list(rows[0])

    def column(name: str | None, default: str) -> str | None:
        if name is not None and name not in columns:
            raise DataError(f'{table}: no column {name!r}; the columns are {", ".join(columns)}. Name yours: {default}="…"')
        return name or (default if default in columns else None)

    column(path, "path")
    column(label, "label")
    id_column, fold_column, group_column = column(id, "id") or path, column(fold, "fold"), column(group, "group")
    named = [caption] if caption is None or isinstance(caption, str) else caption
    caption_columns = [c for c in (column(name, "caption") for name in named) if c]
    for needed in (path, label, id_column, fold_column or path):
        if empty := [i for i, row in enumerate(rows, start=1) if row[needed] == ""]:
            raise DataError(f"{table}: {len(empty)} rows have an empty {needed!r}, the first is row {empty[0]} (the header not counted)")

    folds = fold_numbers(table, fold_column, rows) if fold_column else [-1] * len(rows)
    clips = [
        Clip(
            id=row[id_column],
            path=resolved(table, row[path]),
            label=row[label],
            fold=number,
            group=row[group_column] if group_column else "",
            captions=tuple(row[c] for c in caption_columns if row[c]),
        )
        for row, number in zip(rows, folds, strict=True)
    ]
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
        try:
            frame = pandas.read_csv(table, dtype=str, keep_default_na=False, encoding="utf-8-sig")
        except (pandas.errors.ParserError, pandas.errors.EmptyDataError, UnicodeDecodeError) as error:
            raise DataError(f"{table}: not a CSV in UTF-8 ({error})") from error
    if not len(frame):
        raise DataError(f"{table}: has no rows")
    text = frame.astype(object).where(frame.notna(), "").map(str)
    return text.rename(columns=str).to_dict("records")


def resolved(table: Path, written: str) -> str:
    return written if written.startswith(PREFIX) else str(table.parent / Path(written).expanduser())


def fold_numbers(table: Path, column: str, rows: list[dict[str, str]]) -> list[int]:
    """Whole numbers; "2.0" is one too, because tables with gaps elsewhere are often saved that way."""
    try:
        return [int(row[column].removesuffix(".0")) for row in rows]
    except ValueError as error:
        raise DataError(f"{table}: the folds in {column!r} have to be whole numbers ({error})") from error


HELP = "your own CSV or Parquet with the columns path and label (and id, fold, group, caption)"
DATASETS.add(Own("table", "PATH", HELP, load, takes=lambda path: path.suffix.lower() in ENDINGS))
