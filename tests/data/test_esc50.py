from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from residual_audio.audio import read
from residual_audio.data import DataError, load_dataset

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "esc50"
HEADER = "filename,fold,target,category,esc10,src_file,take\n"
ROWS = [
    "1-100032-A-0.wav,1,0,dog,True,100032,A\n",
    "1-100038-A-14.wav,1,14,chirping_birds,False,100038,A\n",
    "5-9032-A-0.wav,5,0,dog,True,9032,A\n",
]


@pytest.fixture
def root(tmp_path, write):
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "esc50.csv").write_text(HEADER + "".join(ROWS))
    for name in ("1-100032-A-0.wav", "1-100038-A-14.ogg", "5-9032-A-0.flac"):
        write(tmp_path / "audio" / name, rate=44100)
    return tmp_path


def test_rows_folds_and_stems_of_any_ending(root):
    data = load_dataset("esc50", root)
    assert (data.name, data.folds, data.labels) == ("esc50", "official", ("chirping_birds", "dog"))
    assert [c.id for c in data.clips] == ["1-100032-A-0", "1-100038-A-14", "5-9032-A-0"]
    assert [c.fold for c in data.clips] == [1, 1, 5]
    assert (data.clips[0].tags, data.clips[0].group) == (("esc10",), "100032")
    assert (data.clips[1].tags, data.clips[1].group) == ((), "100038")
    assert data.names["chirping_birds"] == "chirping birds"
    assert all(len(read(c.source, 16000)) == 800 for c in data.clips)


def test_wav_is_preferred_and_hidden_files_are_not_audio(root, write):
    write(root / "audio" / "5-9032-A-0.wav")
    (root / "audio" / "._1-100032-A-0.wav").write_bytes(b"resource fork")
    assert [c.path.rsplit(".")[-1] for c in load_dataset("esc50", root).clips] == ["wav", "ogg", "wav"]


def test_esc10(root):
    data = load_dataset("esc10", root)
    assert (data.name, data.labels, len(data)) == ("esc10", ("dog",), 2)
    with pytest.raises(DataError, match="no subset 'esc11'"):
        load_dataset("esc50", root, subset="esc11")


def test_a_folder_around_it_is_looked_into(root, tmp_path_factory):
    outer = tmp_path_factory.mktemp("outer")
    root.rename(outer / "ESC-50-master")
    assert len(load_dataset("esc50", outer)) == 3


def test_default_root_is_shared_by_both(root, tmp_path, monkeypatch, tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    root.rename(home / "esc50")
    monkeypatch.setenv("RESIDUAL_AUDIO_DATA", str(home))
    assert len(load_dataset("esc50")) == 3
    assert len(load_dataset("esc10")) == 2


def test_missing_recordings_are_named_and_counted(root):
    (root / "audio" / "1-100038-A-14.ogg").unlink()
    with pytest.raises(DataError, match=r"1 of 3 recordings are missing in .*audio \(1-100038-A-14\)(.|\n)*ROOT/meta/esc50.csv"):
        load_dataset("esc50", root)


def test_absent_names_place_layout_and_address(tmp_path):
    with pytest.raises(DataError) as caught:
        load_dataset("esc50", tmp_path / "nowhere")
    text = str(caught.value)
    assert f"there is no folder {tmp_path / 'nowhere'}" in text
    assert "ROOT/audio/1-100032-A-0.wav" in text
    assert "https://github.com/karolpiczak/ESC-50" in text


def test_a_table_of_another_kind_lists_its_columns(root):
    (root / "meta" / "esc50.csv").write_text("file,label\nx.wav,dog\n")
    with pytest.raises(DataError, match="filename, fold, category, esc10, src_file are missing; it has file, label"):
        load_dataset("esc50", root)


@pytest.mark.skipif(not REAL.is_dir(), reason="real ESC-50 is not beside the repository (../shared/data/esc50)")
class TestRealData:
    def test_official_numbers(self):
        data = load_dataset("esc50", REAL)
        assert len(data) == 2000
        assert Counter(c.label for c in data.clips) == dict.fromkeys(data.labels, 40)
        assert len(data.labels) == 50
        assert Counter(c.fold for c in data.clips) == dict.fromkeys(range(1, 6), 400)
        assert sum("esc10" in c.tags for c in data.clips) == 400
        assert len(load_dataset("esc10", REAL).labels) == 10

    def test_clips_of_one_recording_share_a_fold_within_a_class(self):
        """Across classes four recordings do not: two gave hens and roosters, two ticking and ringing clocks."""
        per_class, overall = defaultdict(set), defaultdict(set)
        data = load_dataset("esc50", REAL)
        for clip in data.clips:
            per_class[clip.group, clip.label].add(clip.fold)
            overall[clip.group].add(clip.fold)
        assert data.notes["groups_in_several_folds"] == 4
        assert len(overall) == 1524
        assert all(len(folds) == 1 for folds in per_class.values())
        assert {r for r, folds in overall.items() if len(folds) > 1} == {"131943", "134049", "209698", "234879"}

    def test_a_clip_decodes(self):
        clip = load_dataset("esc50", REAL).clips[0]
        assert read(clip.source, 16000).shape == (80000,)
