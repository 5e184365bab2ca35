"""Labels belong to a run, not to the name of its folder: two runs that are called alike never see each other's."""

import csv
from pathlib import Path

import pytest

from residual_audio.data import load_dataset
from residual_audio.extraction import Run, extract
from residual_audio.models import load_encoder
from residual_audio.serve.entry import Entry
from residual_audio.serve.folder import Folder
from residual_audio.serve.labels import Labels
from residual_audio.serve.limits import Limits
from residual_audio.serve.problems import Problem

NAME, ROWS = "mine", (0, 1, 2, 3)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Run]:
    """Three runs in folders of the same name: the last is the first, made again elsewhere."""
    encoder, sounds = load_encoder("tiny"), load_dataset("synthetic", per_class=1)
    some = {"a": sounds.limited(5), "b": sounds.without({c.id for c in sounds.limited(5).clips}).limited(5), "again": sounds.limited(5)}
    return {name: extract(encoder, clips, tmp_path_factory.mktemp(name) / "run", ("head",)) for name, clips in some.items()}


@pytest.fixture
def labels(runs, tmp_path):
    """Of one folder of a server, as the run that is named sees them."""
    encoder, folder = load_encoder("tiny"), Folder(tmp_path / "live")
    return lambda name: Labels(folder, Entry("run", name, encoder, runs.get(name), Limits()))


def labelled(ours: Labels) -> Path:
    for row in ROWS:
        ours.label(NAME, row, "ab"[row % 2])
    return ours.table(NAME)


def test_another_run_of_the_same_name_neither_sees_nor_changes_them(labels):
    table = labelled(labels("a"))
    before, other = table.read_bytes(), labels("b")
    assert other.listed() == []
    for asked in (
        lambda: other.shown(NAME), lambda: other.table(NAME), lambda: other.label(NAME, 0, "x"), lambda: other.delete(NAME),
    ):  # fmt: skip
        with pytest.raises(Problem, match="another run"):
            asked()
    assert table.read_bytes() == before
    other.label("theirs", 0, "x")
    assert [one["name"] for one in labels("a").listed()] == [NAME]
    assert [one["name"] for one in labels("b").listed()] == ["theirs"]


def test_the_same_model_on_the_same_clips_keeps_them(labels):
    labelled(labels("a"))
    assert labels("again").shown(NAME) == labels("a").shown(NAME)


def test_a_model_alone_has_no_part_in_a_runs_labels(labels):
    labelled(labels("a"))
    assert labels("none").listed() == []


def test_labels_of_an_earlier_version_are_those_of_the_run_with_their_clips(labels):
    table = labelled(labels("a"))
    rows = [{key: value for key, value in row.items() if key != "run"} for row in csv.DictReader(table.open(newline=""))]
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    assert labels("b").listed() == labels("none").listed() == []
    (found,) = labels("a").listed()
    assert found["clips"] == len(ROWS)
    labels("a").label(NAME, 0, "c")
    assert labels("a").counted(NAME)["classes"]["c"] == 1
    assert labels("b").listed() == []
