"""Tables with columns of other names, folds of words, and clips that lie elsewhere, from Python and on the command line."""

import pandas as pd
import pytest

from residual_audio.cli.options import Data
from residual_audio.data import DataError, load_dataset


@pytest.fixture
def table(tmp_path):
    rows = [{"file": f"{i}.wav", "species": "ab"[i % 2], "part": ("train", "test")[i // 4], "site": str(i // 2)} for i in range(8)]
    pd.DataFrame(rows).to_csv(tmp_path / "birds.csv", index=False)
    return tmp_path / "birds.csv"


def test_columns_are_named_on_the_command_line(table, tmp_path):
    data = Data(path="file", label="species", fold="part", group="site", data_root=str(tmp_path / "audio")).open(str(table))
    assert data.labels == ("a", "b")
    assert [c.fold for c in data.clips] == [2] * 4 + [1] * 4, "test is the first word of the alphabet"
    assert data.folds == "official"
    assert data.clips[0].path == str(tmp_path / "audio" / "0.wav")
    assert data.clips[3].group == "1"


def test_a_column_that_is_not_there_is_told(table):
    with pytest.raises(DataError, match="no column 'kind'"):
        Data(path="file", label="kind").open(str(table))
    with pytest.raises(DataError, match="has no option 'label'"):
        Data(label="x").open("synthetic")


def test_folds_of_words_in_python(table):
    assert {c.fold for c in load_dataset(str(table), path="file", label="species", fold="part").clips} == {1, 2}
