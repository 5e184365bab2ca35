"""A dataset of the Hugging Face hub, or a local one of that make, that has audio and one label per row."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from ...writing import drafted
from ..clip import Clip, DataError, Dataset, in_folds, make_dataset
from ..registry import DATASETS, Own, default_root

LABEL_COLUMNS = ("label", "labels", "category", "class", "target")
GROUP_COLUMNS = ("group", "speaker", "speaker_id")


def load(
    name: str,
    root: str | Path | None = None,
    config: str | None = None,
    audio: str | None = None,
    label: str | None = None,
    fold: str | None = None,
    group: str | None = None,
    caption: str | None = None,
    seed: int = 0,
) -> Dataset:
    """``name`` is ``REPO[:SPLIT]``; where no split is named, ``train`` is meant, or the only one there is.

    Columns that are not named are found: ``audio`` by its type, ``label`` as the first ClassLabel or by one of the usual names,
    ``group`` by one of the usual names. Without a ``fold`` column, five stratified folds are drawn with ``seed``; groups stay together.
    Audio that comes inside the dataset is written below ``root`` as it is, under the hash of its content.
    """
    try:
        import datasets
    except ImportError as error:
        raise DataError('Hugging Face datasets need an extra: pip install "residual-audio[data]"') from error

    cache = default_root("hf") if root is None else Path(root).expanduser()
    rows, split = open_split(datasets, name, config)
    features = rows.features
    audio = audio or first(name, "audio", features, [c for c, f in features.items() if isinstance(f, datasets.Audio)])
    class_labels = [c for c, f in features.items() if isinstance(f, datasets.ClassLabel)]
    label = label or first(name, "label", features, class_labels + [c for c in LABEL_COLUMNS if c in features])
    group = group or next((c for c in GROUP_COLUMNS if c in features and c != label), None)
    columns = [c for c in (audio, label, fold, group, caption) if c]
    if absent := [c for c in columns if c not in features]:
        raise DataError(f"hf:{name}: no column {absent[0]!r}; the columns are {', '.join(features)}")

    rows = rows.select_columns(list(dict.fromkeys(columns))).cast_column(audio, datasets.Audio(decode=False))
    labels = [label_text(features[label], value, f"hf:{name} row {i}") for i, value in enumerate(rows[label])]
    groups = ["" if value is None else str(value) for value in rows[group]] if group else [""] * len(labels)
    clips = [
        Clip(
            id=f"{split}/{i}",
            path=stored(row[audio], cache, f"hf:{name} row {i}"),
            label=labels[i],
            fold=int(row[fold]) if fold else -1,
            group=groups[i],
            captions=(row[caption],) if caption and row[caption] else (),
            tags=(split,),
        )
        for i, row in enumerate(rows)
    ]
    notes: dict[str, Any] = {"split": split, "audio_column": audio, "label_column": label, **({"group_column": group} if group else {})}
    if fold:
        return make_dataset(f"hf:{name}", clips, folds="official", **notes)
    return make_dataset(f"hf:{name}", in_folds(clips, seed), folds="stratified", **notes)


def open_split(datasets: Any, name: str, config: str | None) -> tuple[Any, str]:
    """The rows of the split that ``REPO[:SPLIT]`` names, and its name."""
    repo, _, split = name.partition(":")
    try:
        known = datasets.get_dataset_split_names(repo, config)
        split = split or ("train" if "train" in known else known[0] if len(known) == 1 else "")
        if split not in known:
            raise DataError(f"hf:{name}: name one of the splits {', '.join(known)}, as in hf:{repo}:{known[0]}")
        return datasets.load_dataset(repo, config, split=split), split
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"hf:{name}: cannot be opened as https://huggingface.co/datasets/{repo} or as a local folder ({error})") from error


def first(name: str, what: str, features: Any, candidates: list[str]) -> str:
    if not candidates:
        raise DataError(f'hf:{name}: none of the columns {", ".join(features)} looks like the {what}; name it: {what}="…"')
    return candidates[0]


def label_text(feature: Any, value: Any, where: str) -> str:
    """A class number as its name; anything that is not one label is refused (the hub writes −1 for a hidden label)."""
    names = getattr(feature, "names", None)
    if value is None or isinstance(value, list | dict) or (names and value == -1):
        raise DataError(f"{where}: has no single label ({value!r}); choose another split or another label column")
    return names[value] if names and isinstance(value, int) else str(value)


def stored(sound: dict[str, Any] | None, cache: Path, where: str) -> str:
    """The path of a file with this audio: its own where it is on disk, else one in ``cache`` that is named by its content."""
    if not sound or (sound["bytes"] is None and not sound["path"]):
        raise DataError(f"{where}: has no audio")
    if sound["bytes"] is None:
        return sound["path"]
    digest = hashlib.sha256(sound["bytes"]).hexdigest()
    target = cache / digest[:2] / f"{digest}{Path(sound['path'] or '').suffix.lower()}"
    if not target.exists():
        with drafted(target) as path:
            path.write_bytes(sound["bytes"])
    return str(target)


DATASETS.add(Own("hf", "REPO[:SPLIT]", "a dataset of the Hugging Face hub with audio and labels", load))
