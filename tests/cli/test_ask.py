"""``ask`` as a user runs it: a text in, units, clips and a map out."""

import json

import pandas as pd
import pytest

from residual_audio.data import load_dataset
from residual_audio.extraction import extract
from residual_audio.models import load_encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    run = tmp_path_factory.mktemp("run") / "r"
    extract(load_encoder("tiny"), load_dataset("synthetic-voice", per_class=1), run, ("embedding", "direct"))
    return run


def test_units_components_and_a_map_that_sums_to_the_score(command, folder, tmp_path, capsys):
    clip = pd.read_parquet(folder / "clips.parquet")["id"].iloc[3]
    assert command("ask", folder, "a trembling sound", "--clip", clip, "--top", 4, "--out", tmp_path / "answer") == 0
    shown = capsys.readouterr().out
    assert "PC1" in shown
    assert "sums to its cosine" in shown.replace("\n", " ")
    tables = tmp_path / "answer" / "tables"
    assert {p.stem for p in tables.glob("*.csv")} == {"ask_units", "ask_components", "ask_map"}
    assert pd.read_parquet(tables / "ask_units.parquet").share.sum() == pytest.approx(1, abs=1e-4)
    cells = pd.read_parquet(tables / "ask_map.parquet")
    assert cells.value.sum() == pytest.approx(cells.score.iloc[0], abs=1e-4)
    assert json.loads((tmp_path / "answer" / "ask.json").read_text())["text"] == "a trembling sound"
    assert len(list((tmp_path / "answer" / "figures").glob("token_map*.png"))) == 1


def test_without_out_nothing_is_written_but_the_map_that_was_asked_for(command, folder):
    before = set(folder.rglob("*"))
    assert command("ask", folder, "rain", "--units", "heads") == 0
    assert set(folder.rglob("*")) == before


def test_errors_are_one_clear_line(command, folder, capsys):
    for words, says in ((("--clip", "nobody"), "no readable clip"), (("--units", "S7"), "names no unit")):
        assert command("ask", folder, "rain", *words) == 2
        told = capsys.readouterr().err
        assert says in told.replace("\n", " ")
        assert "Traceback" not in told
