from __future__ import annotations

from collections import Counter

import pytest

from residual_audio.audio import read
from residual_audio.data import DataError, load_dataset


def test_labels_ids_order_and_formats(tmp_path, write):
    for name in ("пение/b.WAV", "пение/a.flac", "Hand_Clap/deep/er/x.ogg", "Hand_Clap/y.aiff", "Hand_Clap/z.mp3", "Hand_Clap/ü 1.au"):
        write(tmp_path / name)
    for junk in ("пение/.hidden.wav", "пение/notes.txt", ".cache/c.wav", "Hand_Clap/.git/d.wav"):
        (tmp_path / junk).parent.mkdir(exist_ok=True)
        (tmp_path / junk).write_bytes(b"x")
    data = load_dataset(f"folder:{tmp_path}")
    assert [c.id for c in data.clips] == [
        "Hand_Clap/deep/er/x.ogg",
        "Hand_Clap/y.aiff",
        "Hand_Clap/z.mp3",
        "Hand_Clap/ü 1.au",
        "пение/a.flac",
        "пение/b.WAV",
    ]
    assert data.names == {"Hand_Clap": "hand clap", "пение": "пение"}
    assert all(read(c.source, 16000).size for c in data.clips)
    assert load_dataset(str(tmp_path)).clips == data.clips


def test_folds_are_stratified(tmp_path, write):
    for label in "ab":
        for i in range(10):
            write(tmp_path / label / f"{i}.wav", seconds=0.01)
    data = load_dataset(tmp_path.name, root=tmp_path.parent)
    assert data.folds == "stratified"
    assert Counter((c.label, c.fold) for c in data.clips) == {(label, fold): 2 for label in "ab" for fold in range(1, 6)}


def test_groups_are_folders_below_a_label_or_what_a_pattern_matches(tmp_path, write):
    for i in range(24):
        write(tmp_path / "ab"[i % 2] / f"s{i // 4}" / f"take{i // 8}-{i}.wav", seconds=0.01)
    by_folder, by_pattern = load_dataset(f"folder:{tmp_path}"), load_dataset(f"folder:{tmp_path}", group=r"take(\d+)-")
    assert {c.id: c.group for c in by_folder.clips}["a/s2/take1-8.wav"] == "s2"
    assert {c.id: c.group for c in by_pattern.clips}["a/s2/take1-8.wav"] == "1"
    for data, count in ((by_folder, 6), (by_pattern, 3)):
        assert len({(c.group, c.fold) for c in data.clips}) == len(set(data.groups)) == count, "a group lies in one fold, in both classes"
    write(tmp_path / "a" / "loose.wav", seconds=0.01)
    assert load_dataset(f"folder:{tmp_path}").groups.count("a/loose.wav") == 1
    for pattern, says in ((r"take(\d+)-", "not in 1 of 25 files, such as a/loose.wav"), ("take", "has no brackets"), ("(", "no regular")):
        with pytest.raises(DataError, match=says):
            load_dataset(f"folder:{tmp_path}", group=pattern)


def test_symbolic_links_to_class_folders_are_followed(tmp_path, write):
    write(tmp_path / "elsewhere" / "x.wav")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dog").symlink_to(tmp_path / "elsewhere")
    assert load_dataset(f"folder:{tmp_path / 'data'}").clips[0].id == "dog/x.wav"


def test_loose_files_are_an_error_with_a_way_out(tmp_path, write):
    write(tmp_path / "x.wav")
    write(tmp_path / "dog" / "y.wav")
    with pytest.raises(DataError, match=r"1 audio files lie directly in .*x.wav.*/LABEL/.*CSV"):
        load_dataset(f"folder:{tmp_path}")


def test_no_audio_and_no_folder(tmp_path):
    (tmp_path / "dog").mkdir()
    with pytest.raises(DataError, match=r"no audio in the sub-folders .*LABEL/x.wav"):
        load_dataset(f"folder:{tmp_path}")
    with pytest.raises(DataError, match="there is no folder"):
        load_dataset(f"folder:{tmp_path / 'nowhere'}")
