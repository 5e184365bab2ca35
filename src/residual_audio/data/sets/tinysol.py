"""TinySOL 6.0 (Cella et al. 2020): 2,913 single notes of 14 orchestral instruments, 5 official folds (numbered from 0).

The folds are balanced in instrument, pitch and loudness. They do not keep a note apart from the neighbour it was
transposed from: such rows carry the tag ``retuned`` and can be left out with ``.only``.

The group is the instrument and the pitch: notes of one pitch, at several loudnesses or on several strings, are takes of the same thing.
The player would be the better group, but every instrument has one, so that no class could be in two folds; intervals therefore speak of
further notes by these players, not of other players. The official folds stay as they are and do split pitches; parts that are made
here keep them together.
"""

from __future__ import annotations

from pathlib import Path

from ..clip import Clip, Dataset, clean_label, make_dataset
from ..fetch import Remote
from ..files import read_csv, require
from ..origin import Origin
from ..registry import DATASETS, Published

COLUMNS = ("Path", "Fold", "Instrument (in full)", "Pitch", "Needed digital retuning")
AUDIO_FOLDERS = ("audio", "TinySOL", "TinySOL2020", ".")
ORIGIN = Origin(
    name="tinysol",
    page="https://zenodo.org/records/3685367",
    layout="  ROOT/TinySOL_metadata.csv  (or ROOT/annotation/TinySOL_metadata.csv, as mirdata has it)\n"
    "  ROOT/audio/Brass/Bass_Tuba/ordinario/BTb-ord-F#1-pp-N-N.wav  (or ROOT/TinySOL/Brass/…, or ROOT/Brass/…)",
    markers=("TinySOL_metadata.csv", "annotation/TinySOL_metadata.csv"),
    remotes=(
        Remote(
            "https://zenodo.org/record/3685367/files/TinySOL.tar.gz?download=1",
            "sha256:a537e5de4f64edf0a56032369f66fc76adcb67db875e466f54cad2999e00364c",
            "TinySOL.tar.gz",
            into="audio",
        ),
        Remote(
            "https://zenodo.org/record/3685367/files/TinySOL_metadata.csv?download=1",
            "sha256:925727f1036cb3d574856470be6b04af5c9961102902a23cc8eafc7907d040da",
            "TinySOL_metadata.csv",
        ),
    ),
)


def load(root: str | Path) -> Dataset:
    """Rows of the metadata. Prompts leave the tuning out: "Clarinet in Bb" is spoken of as "clarinet"."""
    table = ORIGIN.locate(root)
    base = table.parent.parent if table.parent.name == "annotation" else table.parent
    rows = read_csv(table, COLUMNS)
    audio = next((f for f in (base / name for name in AUDIO_FOLDERS) if any((f / row["Path"]).exists() for row in rows)), base / "audio")
    missing = [row["Path"] for row in rows if not (audio / row["Path"]).exists()]
    require("tinysol", missing, len(rows), audio, ORIGIN.layout)
    clips = [
        Clip(
            id=Path(row["Path"]).stem,
            path=str(audio / row["Path"]),
            label=row["Instrument (in full)"],
            fold=int(row["Fold"]),
            group=f"{row['Instrument (in full)']} {row['Pitch']}",
            tags=("retuned",) if row["Needed digital retuning"] == "TRUE" else (),
        )
        for row in rows
    ]
    names = {clip.label: clean_label(clip.label.split(" in ")[0]) for clip in clips}
    return make_dataset("tinysol", clips, folds="official", names=names)


DATASETS.add(Published("tinysol", "TinySOL: 2,913 notes of 14 orchestral instruments, 5 official folds", load, ORIGIN))
