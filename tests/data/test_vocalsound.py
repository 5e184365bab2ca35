from __future__ import annotations

import json
from collections import Counter

import pytest

from residual_audio.data import DataError, load_dataset

KINDS = ("laughter", "sigh", "cough", "throatclearing", "sneeze", "sniff")
SPEAKERS = {"tr": ["f0003", "m0004", "f0005", "m0006"], "val": ["m0007"], "te": ["f0008", "m0009"]}


@pytest.fixture
def root(tmp_path, write):
    (tmp_path / "datafiles").mkdir()
    for split, speakers in SPEAKERS.items():
        names = [f"{speaker}_0_{kind}.wav" for speaker in speakers for kind in KINDS]
        rows = [{"wav": f"/data/authors/vs/audio_16k/{name}", "labels": "/m/01b_21"} for name in names]
        (tmp_path / "datafiles" / f"{split}.json").write_text(json.dumps({"data": rows}))
        for name in names:
            write(tmp_path / "audio_16k" / name)
    write(tmp_path / "audio_16k" / "f0001_0_cough.wav")  # on disk, in no split
    return tmp_path


def test_official_split_and_labels(root):
    data = load_dataset("vocalsound", root)
    assert data.folds == "official-split"
    assert data.labels == ("cough", "laughter", "sigh", "sneeze", "sniff", "throat clearing")
    assert Counter(c.tags[0] for c in data.clips) == {"train": 24, "valid": 6, "test": 12}
    assert {c.fold for c in data.clips} == {-1}
    clip = next(c for c in data.clips if c.id == "f0003_0_throatclearing")
    assert (clip.label, clip.tags, clip.group) == ("throat clearing", ("train",), "f0003")


def test_one_split(root):
    data = load_dataset("vocalsound", root, split="test")
    assert {c.group for c in data.clips} == {"f0008", "m0009"}
    with pytest.raises(DataError, match="no split 'eval'; one of train, valid, test"):
        load_dataset("vocalsound", root, split="eval")


def test_subset_is_even_seeded_and_recorded(root):
    data = load_dataset("vocalsound", root, subset=18)
    assert Counter(c.label for c in data.clips) == dict.fromkeys(data.labels, 3)
    assert data.clips == load_dataset("vocalsound", root, subset=18).clips
    assert data.clips != load_dataset("vocalsound", root, subset=18, seed=1).clips
    assert (data.notes["limit"], data.notes["sample_seed"]) == (18, 0)


@pytest.mark.parametrize("folder", ["audio_44k", "data_44k"])
def test_release_in_44_khz(root, folder):
    (root / "audio_16k").rename(root / folder)
    assert load_dataset("vocalsound", root).notes["audio"] == folder


def test_missing_recording_and_missing_split(root):
    (root / "audio_16k" / "m0007_0_sniff.wav").unlink()
    with pytest.raises(DataError, match=r"1 of 42 recordings are missing .*m0007_0_sniff"):
        load_dataset("vocalsound", root)
    (root / "datafiles" / "te.json").unlink()
    with pytest.raises(DataError, match=r"te.json is missing"):
        load_dataset("vocalsound", root)


def test_unknown_kind(root, write):
    (root / "datafiles" / "te.json").write_text(json.dumps({"data": [{"wav": "x/m0001_0_yawn.wav"}]}))
    write(root / "audio_16k" / "m0001_0_yawn.wav")
    with pytest.raises(DataError, match="'m0001_0_yawn' does not end in one of laughter"):
        load_dataset("vocalsound", root)
