"""A folder of your own, of sounds or of images: each sub-folder is a class and its name is the label."""

from __future__ import annotations

from pathlib import Path

from ..images import image_files, is_image
from .clip import Clip, DataError, Dataset, make_dataset, stratified_folds
from .files import EXTENSIONS, audio_files, is_audio


def load(root: str | Path, seed: int = 0) -> Dataset:
    """``ROOT/LABEL/…/x.wav``: files at any depth below ``LABEL``, sorted; ids are paths relative to the root.

    Hidden files and files that are not audio are passed over; where there is no audio at all, images are taken. ``seed`` draws five
    stratified folds.
    """
    root = Path(root).expanduser()
    if not root.is_dir():
        raise DataError(f"folder: there is no folder {root}")
    classes = [d for d in sorted(root.iterdir()) if d.is_dir() and not d.name.startswith(".")]
    beside = sorted(p.name for p in root.iterdir() if p.is_file())
    # Images only where there is no sound at all: a cover beside recordings is no clip.
    sounds = any(map(is_audio, beside)) or any(audio_files(d) for d in classes)
    kind, counts, files = ("audio", is_audio, audio_files) if sounds else ("image", is_image, image_files)
    if loose := [name for name in beside if counts(name)]:
        raise DataError(
            f"folder: {len(loose)} {kind} files lie directly in {root} ({loose[0]}, …), so their label is not known. Move them into "
            f"{root}/LABEL/, or list them in a CSV with the columns path and label and load that"
        )
    labelled = [(path, d.name) for d in classes for path in files(d)]
    if not labelled:
        raise DataError(
            f"folder: no audio in the sub-folders of {root}; expected {root}/LABEL/x.wav with an ending of {', '.join(EXTENSIONS)} "
            "(or images, LABEL/x.png)"
        )
    folds = stratified_folds([label for _, label in labelled], seed=seed)
    clips = [
        Clip(id=path.relative_to(root).as_posix(), path=str(path), label=label, fold=fold)
        for (path, label), fold in zip(labelled, folds, strict=True)
    ]
    return make_dataset(f"folder:{root}", clips, folds="stratified", fold_seed=seed)
