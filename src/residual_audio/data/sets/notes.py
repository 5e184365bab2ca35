"""240 real notes that come with the package: a part of NSynth's test set (Engel et al. 2017), 24 of each of 10 instrument families.

The label is the family and the group the instrument. The five folds keep an instrument together, so they ask about *new instruments*;
``--folds stratified`` asks about new notes of known ones. There are 53 instruments in all, and two each of flute and voice, so folds by
instrument are hard and intervals over instruments wide. ``scripts/choose_notes.py`` chose the notes and wrote the table beside them.
"""

from __future__ import annotations

from pathlib import Path

from ..clip import Clip, Dataset, make_dataset
from ..files import read_csv
from ..registry import DATASETS, Shipped

HERE = Path(__file__).parents[1] / "sounds" / "notes"
COLUMNS = ("path", "label", "fold", "group", "caption", "licence")
# NSynth's families as a listener would call them.
NAMES = {
    "bass": "electric or acoustic bass",
    "brass": "brass instrument",
    "flute": "flute",
    "guitar": "guitar",
    "keyboard": "keyboard instrument",
    "mallet": "mallet instrument",
    "organ": "organ",
    "reed": "reed instrument",
    "string": "bowed string instrument",
    "vocal": "singing voice",
}


def load() -> Dataset:
    """Rows of the table in the package; nothing is fetched."""
    clips = [
        Clip(
            id=Path(row["path"]).stem,
            path=str(HERE / row["path"]),
            label=row["label"],
            fold=int(row["fold"]),
            group=row["group"],
            captions=(row["caption"],),
        )
        for row in read_csv(HERE / "clips.csv", COLUMNS)
    ]
    return make_dataset("notes", clips, folds="official", names=NAMES)


DATASETS.add(
    Shipped(
        "notes",
        "240 real notes of 10 instrument families, 53 instruments, 5 folds by instrument; comes with the package",
        load,
        licence="CC BY 4.0",
        credit="NSynth, Engel et al. 2017, Google Magenta",
    )
)
