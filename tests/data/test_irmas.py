from __future__ import annotations

import shutil
from collections import defaultdict

import pytest

from residual_audio.data import DataError, load_dataset
from residual_audio.data.sets.irmas import INSTRUMENTS


@pytest.fixture
def root(tmp_path, write):
    number = 0
    for code in INSTRUMENTS:
        for i in range(10):
            number += 1
            prefix = f"[{code}][cla]" if i % 2 else f"{i:03d}__[{code}][nod][jaz_blu]"
            for excerpt in (1, 2, 3)[: 1 + i % 3]:
                write(tmp_path / "IRMAS-TrainingData" / code / f"{prefix}{number:04d}__{excerpt}.wav", seconds=0.01)
    (tmp_path / "IRMAS-TrainingData" / "README.txt").write_text("IRMAS")
    return tmp_path


def test_instruments_names_and_ids(root):
    data = load_dataset("irmas", root)
    assert data.labels == tuple(INSTRUMENTS)
    assert data.names["gac"] == "acoustic guitar"
    assert (data.folds, len(data)) == ("stratified", 11 * 19)
    assert {c.id for c in data.clips} >= {"000__[cel][nod][jaz_blu]0001__1", "[cel][cla]0002__2"}
    assert "share a fold" in data.notes["grouping"]
    assert load_dataset("irmas", root / "IRMAS-TrainingData").clips == data.clips


def test_excerpts_of_a_recording_share_a_fold_and_every_fold_has_every_class(root):
    data = load_dataset("irmas", root)
    folds, classes = defaultdict(set), defaultdict(set)
    for clip in data.clips:
        folds[clip.group].add(clip.fold)
        classes[clip.fold].add(clip.label)
    assert len(folds) == 110
    assert all(len(numbers) == 1 for numbers in folds.values())
    assert all(classes[number] == set(INSTRUMENTS) for number in range(1, 6))
    assert [c.fold for c in load_dataset("irmas", root, seed=1).clips] != [c.fold for c in data.clips]


def test_an_instrument_is_missing(root):
    shutil.rmtree(root / "IRMAS-TrainingData" / "voi")
    with pytest.raises(DataError, match=r"no audio in .*IRMAS-TrainingData for voi\. Expected layout"):
        load_dataset("irmas", root)
