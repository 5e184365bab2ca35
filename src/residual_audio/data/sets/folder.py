"""A folder of your own, of sounds or of images: each sub-folder is a class and its name is the label."""

from __future__ import annotations

import re
from pathlib import Path

from ..clip import Clip, DataError, Dataset, in_folds, make_dataset
from ..files import EXTENSIONS, audio_files, is_audio
from ..registry import DATASETS, Own, below


def load(path: str | Path, root: str | Path | None = None, group: str | None = None, seed: int = 0) -> Dataset:
    """``PATH/LABEL/…/x.wav``: files at any depth below ``LABEL``, sorted; ids are paths relative to the folder.

    The group of ``PATH/LABEL/GROUP/…/x.wav`` is ``GROUP``, the same one below every label: a speaker may be in several classes.
    ``group`` is a pattern instead, searched for in the id; what its first brackets match is the group: ``group=r"speaker(\\d+)"``.
    Hidden files and files that are not audio are passed over; where there is no audio at all, images are taken. ``seed`` draws five
    stratified folds, which keep groups together.
    """
    from ...images import image_files, is_image

    home = below(root, path)
    if not home.is_dir():
        raise DataError(f"folder: there is no folder {home}")
    classes = [d for d in sorted(home.iterdir()) if d.is_dir() and not d.name.startswith(".")]
    beside = sorted(p.name for p in home.iterdir() if p.is_file())
    # Images only where there is no sound at all: a cover beside recordings is no clip.
    sounds = any(map(is_audio, beside)) or any(audio_files(d) for d in classes)
    kind, counts, files = ("audio", is_audio, audio_files) if sounds else ("image", is_image, image_files)
    if loose := [name for name in beside if counts(name)]:
        raise DataError(
            f"folder: {len(loose)} {kind} files lie directly in {home} ({loose[0]}, …), so their label is not known. Move them into "
            f"{home}/LABEL/, or list them in a CSV with the columns path and label and load that"
        )
    labelled = [(file, d.name) for d in classes for file in files(d)]
    if not labelled:
        raise DataError(
            f"folder: no audio in the sub-folders of {home}; expected {home}/LABEL/x.wav with an ending of {', '.join(EXTENSIONS)} "
            "(or images, LABEL/x.png)"
        )
    ids = [file.relative_to(home).as_posix() for file, _ in labelled]
    groups = [id.split("/")[1] if id.count("/") > 1 else "" for id in ids] if group is None else matched(group, ids)
    clips = [Clip(id=id, path=str(file), label=label, group=own) for (file, label), id, own in zip(labelled, ids, groups, strict=True)]
    return make_dataset(f"folder:{home}", in_folds(clips, seed), folds="stratified", fold_seed=seed)


def matched(pattern: str, ids: list[str]) -> list[str]:
    """What the first brackets of the pattern match in each id; an id without a match is an error, not a group of its own."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise DataError(f"folder: the group {pattern!r} is no regular expression ({error})") from error
    if not compiled.groups:
        raise DataError(f"folder: the group {pattern!r} has no brackets; put them round what names the group, as in 'speaker(\\d+)'")
    matches = [compiled.search(id) for id in ids]
    if missed := [id for id, match in zip(ids, matches, strict=True) if match is None or not match[1]]:
        raise DataError(f"folder: the group {pattern!r} is not in {len(missed)} of {len(ids)} files, such as {missed[0]}")
    return [match[1] for match in matches if match is not None]


DATASETS.add(Own("folder", "PATH", "your own recordings, PATH/LABEL/x.wav or PATH/LABEL/GROUP/x.wav", load, takes=Path.is_dir))
