from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from residual_audio.audio import read
from residual_audio.data import DataError, load_dataset

datasets = pytest.importorskip("datasets", reason='needs the extra: pip install "residual-audio[data]"')


@pytest.fixture(autouse=True)
def offline(tmp_path, monkeypatch):
    """No network, and a cache of the test's own."""
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf-cache")


@pytest.fixture
def repo(tmp_path, write):
    """A hub-like folder of Parquet files with the audio inside: two splits, class labels, folds and captions."""

    def save(splits=("train", "test"), label=None, **columns):
        label = label or datasets.ClassLabel(names=["dog", "siren"])
        for number, split in enumerate(splits):
            sounds = [write(tmp_path / "source" / f"{split}-{i}.{'wav' if i else 'ogg'}", pitch=200 + 50 * i + number) for i in range(10)]
            rows = {
                "audio": [{"bytes": s.read_bytes(), "path": s.name} for s in sounds],
                "kind": [i % 2 for i in range(10)],
                "part": [i % 5 for i in range(10)],
                "text": [f"sound {i}" for i in range(10)],
            } | columns
            data = datasets.Dataset.from_dict(rows).cast_column("audio", datasets.Audio()).cast_column("kind", label)
            (tmp_path / "repo" / "data").mkdir(parents=True, exist_ok=True)
            data.to_parquet(tmp_path / "repo" / "data" / f"{split}-00000-of-00001.parquet")
        return tmp_path / "repo"

    return save


def test_rows_audio_and_class_labels(repo, tmp_path):
    data = load_dataset(f"hf:{repo()}", tmp_path / "cache", fold="part", caption="text")
    assert (len(data), data.labels, data.folds) == (10, ("dog", "siren"), "official")
    clip = data.clips[3]
    assert (clip.id, clip.label, clip.fold, clip.captions, clip.tags) == ("train/3", "siren", 3, ("sound 3",), ("train",))
    assert Path(clip.path).read_bytes() == (tmp_path / "source" / "train-3.wav").read_bytes()
    assert Path(data.clips[0].path).suffix == ".ogg"
    assert all(len(read(c.source, 16000)) == 800 for c in data.clips)


def test_split_and_drawn_folds(repo, tmp_path):
    data = load_dataset(f"hf:{repo()}:test", tmp_path / "cache")
    assert {c.tags for c in data.clips} == {("test",)}
    assert Counter((c.label, c.fold) for c in data.clips) == {(label, fold): 1 for label in data.labels for fold in range(1, 6)}
    with pytest.raises(DataError, match="name one of the splits train, test"):
        load_dataset(f"hf:{repo()}:dev", tmp_path / "cache")


@pytest.mark.parametrize(("column", "options"), [("speaker_id", {}), ("who", {"group": "who"})])
def test_groups_come_from_a_column(repo, tmp_path, column, options):
    name = f"hf:{repo(**{column: [i // 4 for i in range(9)] + [None]})}"
    data = load_dataset(name, tmp_path / "cache", **options)
    assert data.groups == ["0"] * 4 + ["1"] * 4 + ["2", "train/9"]
    assert data.notes["group_column"] == column
    assert len({(c.own_group, c.fold) for c in data.clips}) == 4


def test_the_cache_is_written_once(repo, tmp_path):
    name = f"hf:{repo()}"
    first = load_dataset(name, tmp_path / "cache")
    times = {c.path: Path(c.path).stat().st_mtime_ns for c in first.clips}
    assert load_dataset(name, tmp_path / "cache").clips == first.clips
    assert {p: Path(p).stat().st_mtime_ns for p in times} == times
    assert len([p for p in (tmp_path / "cache").rglob("*") if p.is_file()]) == 10


def test_a_single_split_needs_no_name(repo, tmp_path):
    assert load_dataset(f"hf:{repo(splits=('validation',))}", tmp_path / "cache").notes["split"] == "validation"


def test_labels_as_text(repo, tmp_path):
    name = f"hf:{repo(label=datasets.Value('string'), kind=['a', 'b'] * 5)}"
    with pytest.raises(DataError, match='none of the columns audio, kind, part, text looks like the label; name it: label="…"'):
        load_dataset(name, tmp_path / "cache")
    assert load_dataset(name, tmp_path / "cache", label="kind").labels == ("a", "b")


def test_hidden_labels_and_unknown_columns(repo, tmp_path):
    with pytest.raises(DataError, match="row 4: has no single label"):
        load_dataset(f"hf:{repo(kind=[0, 1, 0, 1, -1] * 2)}", tmp_path / "cache")
    with pytest.raises(DataError, match="no column 'speaker'; the columns are audio, kind, part, text"):
        load_dataset(f"hf:{repo()}", tmp_path / "cache", fold="speaker")


def test_nothing_there(tmp_path):
    with pytest.raises(DataError, match=r"https://huggingface\.co/datasets/nobody/nothing"):
        load_dataset("hf:nobody/nothing", tmp_path / "cache")


def test_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r'pip install "residual-audio\[data\]"'):
        load_dataset("hf:nobody/nothing", tmp_path / "cache")
