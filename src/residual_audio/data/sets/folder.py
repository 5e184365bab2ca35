"""A folder of your own, of sounds or of images: each sub-folder is a class and its name is the label."""

from __future__ import annotations

from pathlib import Path

from ..clip import Clip, DataError, Dataset, make_dataset, stratified_folds
from ..files import EXTENSIONS, audio_files, is_audio
from ..registry import DATASETS, Own, below


def load(path: str | Path, root: str | Path | None = None, seed: int = 0) -> Dataset:
    """``PATH/LABEL/…/x.wav``: files at any depth below ``LABEL``, sorted; ids are paths relative to the folder.

    Hidden files and files that are not audio are passed over; where there is no audio at all, images are taken. ``seed`` draws five
    stratified folds.
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
    folds = stratified_folds([label for _, label in labelled], seed=seed)
    clips = [
        Clip(id=file.relative_to(home).as_posix(), path=str(file), label=label, fold=fold)
        for (file, label), fold in zip(labelled, folds, strict=True)
    ]
    return make_dataset(f"folder:{home}", clips, folds="stratified", fold_seed=seed)


DATASETS.add(Own("folder", "PATH", "your own recordings, PATH/LABEL/x.wav", load, takes=Path.is_dir))
