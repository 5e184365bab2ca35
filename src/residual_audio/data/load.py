"""Open any dataset: by its registered name, by the address of the user's own data, or by a bare path."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

from .clip import DataError, Dataset
from .registry import DATASETS, Own, below


def load_dataset(name: str, root: str | Path | None = None, download: bool = False, **options: Any) -> Dataset:
    """Open a dataset by a name of :data:`DATASETS`, by an address such as ``folder:PATH``, or by the path of a folder or a table.

    ``root`` is the folder that the dataset lies in (for ``hf:`` the folder for its audio, for a relative path the folder that it starts
    from; generated sounds need none). With ``download``, a published dataset that is not there is fetched first. Further options go to
    the loader: ``load_dataset("vocalsound", subset=1200)``.
    """
    kind, _, rest = name.partition(":")
    if name in DATASETS and not isinstance(source := DATASETS[name], Own):
        return source.open(root, download, options)
    if rest and kind in DATASETS and isinstance(source := DATASETS[kind], Own):
        return source.load(rest, root, **options)
    path = below(root, name)
    for source in DATASETS.values():
        if isinstance(source, Own) and source.takes(path):
            return source.load(name, root, **options)
    known = [source.shown for source in DATASETS.values()]
    near = get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(near)}?" if near else "."
    raise DataError(f"no dataset {name!r}{hint} Known are {', '.join(known)}, or the path of a folder, a CSV or a Parquet file")
