"""A folder of your own: each sub-folder is a class and its name is the label."""

from __future__ import annotations

from pathlib import Path

from .clip import AudioDataset, Clip, DataError, make_dataset, stratified_folds
from .files import EXTENSIONS, audio_files, is_audio


def load(root: str | Path, seed: int = 0) -> AudioDataset:
    """``ROOT/LABEL/…/x.wav``: files at any depth below ``LABEL``, sorted; ids are paths relative to the root.

    Hidden files and files that are not audio are passed over. ``seed`` draws five stratified folds.
    """
    root = Path(root).expanduser()
    if not root.is_dir():
        raise DataError(f"folder: there is no folder {root}")
    if loose := sorted(p.name for p in root.iterdir() if p.is_file() and is_audio(p.name)):
        raise DataError(
            f"folder: {len(loose)} audio files lie directly in {root} ({loose[0]}, …), so their label is not known. Move them into "
            f"{root}/LABEL/, or list them in a CSV with the columns path and label and load that"
        )
    labelled = [(path, d.name) for d in sorted(root.iterdir()) if d.is_dir() and not d.name.startswith(".") for path in audio_files(d)]
    if not labelled:
        raise DataError(
            f"folder: no audio in the sub-folders of {root}; expected {root}/LABEL/x.wav with an ending of {', '.join(EXTENSIONS)}"
        )
    folds = stratified_folds([label for _, label in labelled], seed=seed)
    clips = [
        Clip(id=path.relative_to(root).as_posix(), path=str(path), label=label, fold=fold)
        for (path, label), fold in zip(labelled, folds, strict=True)
    ]
    return make_dataset(f"folder:{root}", clips, folds="stratified", fold_seed=seed)
