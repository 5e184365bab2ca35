"""The recordings in the package."""

from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from residual_audio.audio import read
from residual_audio.data import DataError, grouped_folds, load_dataset
from residual_audio.data.sets.notes import HERE
from residual_audio.evaluation.folds import fold_parts, with_folds

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "choose_notes.py"


@pytest.fixture(scope="module")
def notes():
    return load_dataset("notes")


def test_families_instruments_and_captions(notes):
    assert (len(notes), len(notes.labels), len(set(notes.groups)), notes.folds) == (240, 10, 53, "official")
    assert set(Counter(c.label for c in notes.clips).values()) == {24}
    assert all(c.group.startswith(c.label) and c.id.startswith(c.group) for c in notes.clips)
    assert notes.names["string"] == "bowed string instrument"
    assert len(set(notes.names.values())) == 10
    for clip in notes.clips:
        pitch = int(clip.id.split("-")[1])
        assert ("low" in clip.captions[0], "high" in clip.captions[0]) == (pitch < 48, pitch >= 72)
        assert clip.group.split("_")[1] in clip.captions[0]


def test_notes_are_audible_and_small(notes):
    assert sum(p.stat().st_size for p in HERE.iterdir()) < 4_000_000
    for clip in notes.clips:
        samples = read(clip.source, 16000)
        assert 3.9 < len(samples) / 16000 < 4.1
        assert np.sqrt((samples**2).mean()) > 1e-3


def test_the_first_notes_of_a_family_are_of_several_instruments(notes):
    few = notes.limited(30)
    assert len(set(few.groups)) == 28, "three instruments of each family; flute and voice have two"


def test_pitches_and_velocities_are_spread(notes):
    for label in notes.labels:
        own = [c.id.split("-") for c in notes.clips if c.label == label]
        velocities = Counter(velocity for *_, velocity in own)
        assert set(velocities) == {"025", "050", "075", "100", "127"}
        assert max(velocities.values()) - min(velocities.values()) <= 2
        assert np.ptp([int(pitch) for _, pitch, _ in own]) > 48, "over four octaves"


def test_official_folds_ask_about_new_instruments_stratified_ones_about_new_notes(notes):
    """Every family of two or more instruments is always learned from another instrument than it is tested on."""
    groups, targets = np.array(notes.groups), notes.targets
    for _, parts in fold_parts(notes):
        assert not set(groups[parts.seen]) & set(groups[parts.test])
        assert set(targets[parts.train]) == set(range(10)), "every family is learned"
    sizes = Counter(c.fold for c in notes.clips)
    assert set(sizes) == {1, 2, 3, 4, 5}
    assert max(sizes.values()) - min(sizes.values()) <= 6
    mixed = with_folds(notes, "stratified")
    for _, parts in fold_parts(mixed):
        assert set(Counter(targets[parts.test].tolist()).values()) <= {4, 5}
        assert len(set(groups[parts.seen]) & set(groups[parts.test])) > 0.8 * len(set(groups[parts.test]))


def test_folds_are_the_projects_own(notes):
    assert [c.fold for c in notes.clips] == grouped_folds([c.label for c in notes.clips], notes.groups)


def test_they_need_no_folder(notes):
    with pytest.raises(DataError, match="comes with the package"):
        load_dataset("notes", "/somewhere")
    with pytest.raises(DataError, match="no option 'seed'"):
        load_dataset("notes", seed=1)


def test_the_script_chooses_these_notes_again(shared, tmp_path, monkeypatch, capsys):
    table = shared / "data" / "nsynth" / "clips.csv"
    if not table.exists():
        pytest.skip("needs NSynth's notes in ../shared/data")
    monkeypatch.setattr("sys.argv", ["choose_notes.py", str(table), "--out", str(tmp_path)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert "240 notes of 53 instruments" in capsys.readouterr().out
    assert (tmp_path / "clips.csv").read_text() == (HERE / "clips.csv").read_text()
    assert {p.name: p.read_bytes() for p in tmp_path.glob("*.ogg")} == {p.name: p.read_bytes() for p in HERE.glob("*.ogg")}
