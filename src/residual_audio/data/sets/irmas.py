"""IRMAS, training part (Bosch et al. 2012): 6,705 excerpts of 3 s from over 2,000 pieces of music, 11 predominant instruments.

File names read ``[cel][cla]0001__1.wav`` or ``008__[cel][nod][cla]0058__1.wav``: instrument, drums, genre, recording, and
the number of the excerpt from it. There are no official folds; ours keep the excerpts of one recording together.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..clip import Clip, DataError, Dataset, in_folds, make_dataset
from ..fetch import Remote
from ..files import audio_files
from ..origin import Origin
from ..registry import DATASETS, Published

INSTRUMENTS = {
    "cel": "cello",
    "cla": "clarinet",
    "flu": "flute",
    "gac": "acoustic guitar",
    "gel": "electric guitar",
    "org": "organ",
    "pia": "piano",
    "sax": "saxophone",
    "tru": "trumpet",
    "vio": "violin",
    "voi": "singing voice",
}
RECORDING = re.compile(r"(\d+)__\d+$")
ORIGIN = Origin(
    name="irmas",
    page="https://zenodo.org/records/1290750",
    layout=f"  ROOT/IRMAS-TrainingData/cel/[cel][cla]0001__1.wav  and so on for {', '.join(INSTRUMENTS)}",
    markers=("cel",),
    # The only one of the four for which no SHA-256 is published: this is the MD5 that Zenodo states. 6,705 excerpts of 3 s are 3.6 GB
    # before they are packed, so that a larger file is another one.
    remotes=(
        Remote(
            "https://zenodo.org/record/1290750/files/IRMAS-TrainingData.zip?download=1",
            "md5:4fd9f5ed5a18d8e2687e6360b5f60afe",
            "IRMAS-TrainingData.zip",
            most=4 * 10**9,
        ),
    ),
)


def load(root: str | Path, seed: int = 0) -> Dataset:
    """Excerpts by instrument; ``seed`` draws the five folds. The group is the number of the recording."""
    base = ORIGIN.locate(root).parent
    files = {code: audio_files(base / code) for code in INSTRUMENTS}
    if absent := [code for code, paths in files.items() if not paths]:
        raise DataError(f"irmas: no audio in {base} for {', '.join(absent)}. Expected layout:\n{ORIGIN.layout}")
    clips = [Clip(id=path.stem, path=str(path), label=code, group=recording(path)) for code, paths in files.items() for path in paths]
    grouping = "five seeded folds over recordings, so that excerpts of one recording share a fold"
    return make_dataset("irmas", in_folds(clips, seed), folds="stratified", names=INSTRUMENTS, fold_seed=seed, grouping=grouping)


def recording(path: Path) -> str:
    """The number of the recording; a name without one stands for itself."""
    match = RECORDING.search(path.stem)
    return match.group(1) if match else path.stem


DATASETS.add(Published("irmas", "IRMAS, training part: 6,705 excerpts of music, 11 predominant instruments", load, ORIGIN))
