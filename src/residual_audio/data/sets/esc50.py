"""ESC-50 (Piczak 2015): 2,000 environmental sounds of 5 s in 50 classes, 5 official folds; ESC-10 is a part of it.

Clips of one class that were cut from one recording share an official fold, so cross-validation on these folds does not leak
(four of the 1,524 recordings lie in two folds, each time under two different classes).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ..clip import Clip, DataError, Dataset, make_dataset
from ..fetch import Remote
from ..files import by_stem, read_csv, require
from ..origin import Origin
from ..registry import DATASETS, Published

# GitHub makes these archives on demand; the commit is pinned because every change to the branch would change the checksum.
COMMIT = "33c8ce9eb2cf0b1c2f8bcf322eb349b6be34dbb6"
SHA256 = "sha256:661183a6f53ef04f12c9bd618fed0ddc1713280d6c94a5a5431e844ba6f6a21f"
COLUMNS = ("filename", "fold", "category", "esc10", "src_file")
ORIGIN = Origin(
    name="esc50",
    page="https://github.com/karolpiczak/ESC-50",
    layout="  ROOT/meta/esc50.csv\n  ROOT/audio/1-100032-A-0.wav  (or .flac, .ogg of the same stem)",
    markers=("meta/esc50.csv",),
    remotes=(
        Remote(
            f"https://github.com/karolpiczak/ESC-50/archive/{COMMIT}.zip",
            "sha256:661183a6f53ef04f12c9bd618fed0ddc1713280d6c94a5a5431e844ba6f6a21f",
            "esc50.zip",
        ),
    ),
)


def load(root: str | Path, subset: str | None = None) -> Dataset:
    """Rows of ``meta/esc50.csv``; ``subset="esc10"`` keeps the ten classes of ESC-10.

    The group is the recording, by its number on freesound.org. Tag: ``esc10`` on the clips of that subset.
    """
    if subset not in (None, "esc10"):
        raise DataError(f"esc50: no subset {subset!r}; the only one is 'esc10'")
    table = ORIGIN.locate(root)
    audio = table.parent.parent / "audio"
    files = by_stem(audio)
    rows = [row for row in read_csv(table, COLUMNS) if subset is None or row["esc10"] == "True"]
    stems = [Path(row["filename"]).stem for row in rows]
    require("esc50", [stem for stem in stems if stem not in files], len(rows), audio, ORIGIN.layout)
    clips = [
        Clip(
            id=stem,
            path=str(files[stem]),
            label=row["category"],
            fold=int(row["fold"]),
            group=row["src_file"],
            tags=("esc10",) if row["esc10"] == "True" else (),
        )
        for stem, row in zip(stems, rows, strict=True)
    ]
    return make_dataset(subset or "esc50", clips, folds="official")


DATASETS.add(Published("esc50", "ESC-50: 2,000 environmental sounds, 50 classes, 5 official folds", load, ORIGIN))
DATASETS.add(Published("esc10", "ESC-10: the 400 clips of ESC-50 in 10 selected classes", partial(load, subset="esc10"), ORIGIN))
