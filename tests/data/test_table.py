from __future__ import annotations

from collections import Counter
from pathlib import Path

import pandas
import pytest

from residual_audio.audio import read
from residual_audio.data import DataError, DataWarning, load_dataset
from residual_audio.media import MediaError


def test_csv_with_the_usual_names(tmp_path, write):
    write(tmp_path / "audio" / "côté.wav")
    elsewhere = write(tmp_path / "x.flac")
    table = tmp_path / "clips.csv"
    table.write_text(f"path,label,fold,id,caption\naudio/côté.wav,None,1,first,a bell\n{elsewhere},NA,2.0,second,\n", encoding="utf-8-sig")
    data = load_dataset(str(table))
    assert (data.folds, data.labels) == ("official", ("NA", "None"))
    assert [(c.id, c.fold, c.captions) for c in data.clips] == [("first", 1, ("a bell",)), ("second", 2, ())]
    assert [Path(c.path) for c in data.clips] == [tmp_path / "audio" / "côté.wav", elsewhere]
    assert all(len(read(c.source, 16000)) == 800 for c in data.clips)
    assert load_dataset("table:clips.csv", tmp_path).clips == data.clips


def test_parquet_with_columns_of_ones_own(tmp_path):
    frame = pandas.DataFrame({"file": ["a.wav", "b.wav"], "class": [3, 4], "part": [0, 1], "c1": ["one", None], "c2": ["two", "three"]})
    frame.to_parquet(tmp_path / "t.parquet")
    data = load_dataset(f"{tmp_path}/t.parquet", path="file", label="class", fold="part", caption=["c1", "c2"])
    assert [(c.id, c.label, c.fold, c.captions) for c in data.clips] == [("a.wav", "3", 0, ("one", "two")), ("b.wav", "4", 1, ("three",))]


def test_captions_in_numbered_columns_or_in_rows_of_their_own(tmp_path):
    (tmp_path / "columns.csv").write_text("path,label,caption_1,caption_2\na.wav,x,one,two\nb.wav,y,three,\n")
    (tmp_path / "rows.csv").write_text("path,label,caption\na.wav,x,one\nb.wav,y,three\na.wav,x,two\n")
    columns, rows = (load_dataset(f"{tmp_path}/{name}.csv") for name in ("columns", "rows"))
    assert columns.clips == rows.clips
    assert [(c.id, c.captions) for c in rows.clips] == [("a.wav", ("one", "two")), ("b.wav", ("three",))]
    (tmp_path / "rows.csv").write_text("path,label,caption\na.wav,x,one\na.wav,y,two\n")
    with pytest.raises(DataError, match=r"'a\.wav' occurs more than once"):
        load_dataset(f"{tmp_path}/rows.csv")


def test_files_elsewhere_and_of_another_ending(tmp_path, write):
    sound = write(tmp_path / "sounds" / "a.flac")
    write(tmp_path / "sounds" / "b.wav")
    (tmp_path / "t.csv").write_text("path,label\na.wav,x\nb.wav,y\nc.wav,y\n")
    clips = load_dataset(f"{tmp_path}/t.csv", audio=sound.parent).clips
    assert [c.id for c in clips] == ["a.wav", "b.wav", "c.wav"]
    assert [Path(c.path).relative_to(sound.parent).name for c in clips] == ["a.flac", "b.wav", "c.wav"]
    assert len(read(clips[0].source, 16000)) == 800


def test_without_folds_they_are_drawn(tmp_path):
    (tmp_path / "t.csv").write_text("path,label\n" + "".join(f"{i}.wav,{'ab'[i % 2]}\n" for i in range(20)))
    data = load_dataset(f"table:{tmp_path}/t.csv")
    assert data.folds == "stratified"
    assert Counter((c.label, c.fold) for c in data.clips) == {(label, fold): 2 for label in "ab" for fold in range(1, 6)}


@pytest.mark.parametrize(("column", "options"), [("group", {}), ("speaker", {"group": "speaker"})])
def test_groups_come_from_a_column_and_share_a_made_fold(tmp_path, column, options):
    rows = "".join(f"{i}.wav,{'ab'[i % 2]},{'' if i > 27 else f's{i // 4}'}\n" for i in range(30))
    (tmp_path / "t.csv").write_text(f"path,label,{column}\n{rows}")
    data = load_dataset(f"table:{tmp_path}/t.csv", **options)
    assert data.groups == [f"s{i // 4}" for i in range(28)] + ["28.wav", "29.wav"]
    folds = {group: {c.fold for c in data.clips if c.group == group} for group in data.groups[:28]}
    assert all(len(numbers) == 1 for numbers in folds.values())
    assert {c.fold for c in data.clips} == {1, 2, 3, 4, 5}
    assert "groups" not in data.notes


def test_own_folds_that_split_groups_are_told(tmp_path):
    (tmp_path / "t.csv").write_text("path,label,fold,group\na.wav,x,1,s1\nb.wav,x,2,s1\nc.wav,x,2,s2\n")
    with pytest.warns(DataWarning, match=r"1 of 2 groups lie in more than one fold \(s1"):
        data = load_dataset(f"{tmp_path}/t.csv")
    assert [c.fold for c in data.clips] == [1, 2, 2]
    assert data.notes == {"groups_in_several_folds": 1}


def test_missing_files_are_left_to_the_decoder(tmp_path):
    (tmp_path / "t.csv").write_text("path,label\nnowhere.wav,a\n")
    clip = load_dataset(f"{tmp_path}/t.csv").clips[0]
    with pytest.raises(MediaError, match="no such file"):
        read(clip.source, 16000)


def test_synthetic_addresses_stay(tmp_path):
    (tmp_path / "t.csv").write_text("path,label\nsynthetic:voice/0/5,a\n")
    assert len(read(load_dataset(f"{tmp_path}/t.csv").clips[0].source, 16000)) == 64000


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("file,label\na.wav,x\n", {}, r'no column .path.; the columns are file, label\. Name yours: path="…" \(--path\)'),
        ("path,label\na.wav,x\n", {"fold": "split"}, "no column 'split'"),
        ("path,label\na.wav,x\nb.wav,\n", {}, "1 rows have an empty 'label', the first is row 2"),
        ("path,label\na.wav,x\na.wav,y\n", {}, "'a.wav' occurs more than once"),
        ("path,label,fold\na.wav,x,1.5\n", {}, "have to be whole numbers"),
        ("path,label\n", {}, "has no rows"),
        ("", {}, "not a CSV"),
    ],
)
def test_bad_tables(tmp_path, text, options, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        load_dataset(f"{tmp_path}/t.csv", **options)


def test_no_such_table(tmp_path):
    with pytest.raises(DataError, match="there is no file"):
        load_dataset(f"{tmp_path}/t.csv")
