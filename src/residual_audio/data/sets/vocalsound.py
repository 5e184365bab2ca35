"""VocalSound (Gong, Yu and Glass 2022): 21,024 recordings of six vocal sounds, split officially by speaker."""

from __future__ import annotations

import json
from pathlib import Path

from ..clip import Clip, DataError, Dataset, make_dataset
from ..fetch import Remote
from ..files import by_stem, require
from ..origin import Origin
from ..registry import DATASETS, Published

KINDS = {
    "laughter": "laughter",
    "sigh": "sigh",
    "cough": "cough",
    "throatclearing": "throat clearing",
    "sneeze": "sneeze",
    "sniff": "sniff",
}
SPLITS = {"train": "tr", "valid": "val", "test": "te"}
AUDIO_FOLDERS = ("audio_16k", "audio_44k", "data_44k")
ORIGIN = Origin(
    name="vocalsound",
    page="https://github.com/YuanGongND/vocalsound",
    layout="  ROOT/datafiles/tr.json, val.json, te.json\n"
    "  ROOT/audio_16k/f0003_0_cough.wav  (the release in 44.1 kHz: ROOT/audio_44k/ or ROOT/data_44k/)",
    markers=("datafiles/tr.json",),
    # The authors state no checksum; this one is from a public script that prepares the same release.
    remotes=(
        Remote(
            "https://www.dropbox.com/s/c5ace70qh1vbyzb/vs_release_16k.zip?dl=1",
            "sha256:66b83ee62e79c059b051c6f4afac06497945931c10c7f643a928b92f1ff9b9f2",
            "vs_release_16k.zip",
        ),
    ),
)


def load(root: str | Path, split: str | None = None, subset: int | None = None, seed: int = 0) -> Dataset:
    """Recordings of one official ``split`` (train, valid, test) or of all three.

    ``subset=1200`` draws that many with ``seed``, the same number from each class. The group is the speaker, the tag is
    the split; no speaker is in two splits. File names read ``SPEAKER_SESSION_KIND.wav``.
    """
    if split is not None and split not in SPLITS:
        raise DataError(f"vocalsound: no split {split!r}; one of {', '.join(SPLITS)}")
    base = ORIGIN.locate(root).parent.parent
    audio = next((base / name for name in AUDIO_FOLDERS if (base / name).is_dir()), base / AUDIO_FOLDERS[0])
    files = by_stem(audio)
    listed = [
        (name, stem) for name in SPLITS if split in (None, name) for stem in listed_stems(base / "datafiles" / f"{SPLITS[name]}.json")
    ]
    require("vocalsound", [stem for _, stem in listed if stem not in files], len(listed), audio, ORIGIN.layout)
    clips = [Clip(id=stem, path=str(files[stem]), label=kind_of(stem), group=stem.split("_")[0], tags=(name,)) for name, stem in listed]
    dataset = make_dataset("vocalsound", clips, folds="official-split", audio=audio.name, split=split or "all")
    return dataset if subset is None else dataset.limited(subset, seed=seed)


def listed_stems(path: Path) -> list[str]:
    """The recordings of one split; the folders in the file are those of the authors' machine."""
    if not path.exists():
        raise DataError(f"vocalsound: {path} is missing. Expected layout:\n{ORIGIN.layout}")
    return [row["wav"].rsplit("/", 1)[-1].removesuffix(".wav") for row in json.loads(path.read_text(encoding="utf-8"))["data"]]


def kind_of(stem: str) -> str:
    kind = stem.rsplit("_", 1)[-1]
    if kind not in KINDS:
        raise DataError(f"vocalsound: {stem!r} does not end in one of {', '.join(KINDS)}")
    return KINDS[kind]


HELP = "VocalSound: 21,024 vocal sounds in 6 classes, official split by speaker (subset=1200 draws a part)"
DATASETS.add(Published("vocalsound", HELP, load, ORIGIN))
