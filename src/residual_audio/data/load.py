"""Open any dataset: by its registered name, by the address of the user's own data, or by a bare path."""

from __future__ import annotations

import inspect
import warnings
from collections import defaultdict
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from .clip import DataError, Dataset, DataWarning
from .registry import DATASETS, Own, Source, below


def load_dataset(name: str, root: str | Path | None = None, download: bool = False, **options: Any) -> Dataset:
    """Open a dataset by a name of :data:`DATASETS`, by an address such as ``folder:PATH``, or by the path of a folder or a table.

    ``root`` is the folder that the dataset lies in (for ``hf:`` the folder for its audio, for a relative path the folder that it starts
    from; generated sounds need none). With ``download``, a published dataset that is not there is fetched first. Further options go to
    the loader: ``load_dataset("vocalsound", subset=1200)``.

    Recordings of which none has a group, and folds of the user's own that split groups, bring a :class:`DataWarning`.
    """
    kind, _, rest = name.partition(":")
    if name in DATASETS and not isinstance(source := DATASETS[name], Own):
        check_options(source, options)
        return looked_over(source.open(root, download, options))
    if rest and kind in DATASETS and isinstance(source := DATASETS[kind], Own):
        check_options(source, options)
        return looked_over(source.load(rest, root, **options), own=True)
    path = below(root, name)
    for source in DATASETS.values():
        if isinstance(source, Own) and source.takes(path):
            check_options(source, options)
            return looked_over(source.load(name, root, **options), own=True)
    known = [source.shown for source in DATASETS.values()]
    near = get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(near)}?" if near else "."
    raise DataError(f"no dataset {name!r}{hint} Known are {', '.join(known)}, or the path of a folder, a CSV or a Parquet file")


def check_options(source: Source, options: dict[str, Any]) -> None:
    """Refuse what the loader does not read."""
    parameters = inspect.signature(source.load).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    read = [name for name, p in parameters.items() if p.default is not p.empty and name != "root"]
    if unread := [name for name in options if name not in read]:
        raise DataError(f"{source.shown} has no option {unread[0]!r}; {'it has ' + ', '.join(read) if read else 'it has none'}")


def looked_over(dataset: Dataset, own: bool = False) -> Dataset:
    """Note what groups there are, and warn where figures would look surer than they are."""
    notes: dict[str, object] = {}
    if not any(c.group for c in dataset.clips) and not all(c.synthetic for c in dataset.clips):
        notes["groups"] = "none: every clip counts as independent of all others"
        warnings.warn(
            f"{dataset.name} does not say which clips belong together (one speaker, recording or instrument), so every clip counts as "
            "independent. If some do belong together, scores are too good and intervals too narrow: add a column `group` to a table, "
            "sort a folder as LABEL/GROUP/x.wav, or name the column or pattern by group=… (--group)",
            DataWarning,
            stacklevel=3,
        )
    folds: dict[str, set[int]] = defaultdict(set)
    for clip in dataset.clips:
        folds[clip.group].add(clip.fold)
    if dataset.folds == "official" and (split := [g for g, numbers in folds.items() if g and len(numbers) > 1]):
        notes["groups_in_several_folds"] = len(split)
        if own:
            warnings.warn(
                f"{dataset.name}: {len(split)} of {len(folds)} groups lie in more than one fold ({split[0]}, …), so tests are not on new "
                "groups and scores may be too good; leave the fold column out to have folds made that keep groups together",
                DataWarning,
                stacklevel=3,
            )
    return replace(dataset, notes={**dataset.notes, **notes}) if notes else dataset
