"""``describe`` as a user runs it: words in, tables, a figure and exit codes out."""

import json

import pandas as pd
import pytest

from residual_audio.data import load_dataset
from residual_audio.extraction import extract
from residual_audio.models import load_encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    run = tmp_path_factory.mktemp("run") / "r"
    extract(load_encoder("tiny"), load_dataset("synthetic-voice", per_class=3), run, ("embedding", "direct"))
    return run


def test_tables_figure_and_record(command, folder, tmp_path, capsys):
    own = tmp_path / "mine.txt"
    own.write_text("a creaking gate\na voice\n")
    words = ("--units", "S3B1H0 S3B1H1", "--words", 3, "--components", 1, "--permutations", 3, "--resamples", 2)
    assert command("describe", folder, "--dictionary", "synthetic", "--dictionary", own, *words) == 0
    shown = capsys.readouterr().out
    assert "S3B1H" in shown
    assert "greedy" in shown
    tables = folder / "tables"
    names = {"words", "descriptions", "coherent_stages", "text_alignment", "selection", "selection_summary"}
    assert {p.stem for p in tables.glob("*.parquet")} == names == {p.stem for p in tables.glob("*.csv")}
    lists = pd.read_parquet(tables / "descriptions.parquet")
    assert set(lists.label) == {"S3B1H0", "S3B1H1"}
    assert set(lists.method) == {"textspan", "somp", "correlation"}
    assert lists.approximation.str.len().min() > 10
    record = json.loads((folder / "describe.json").read_text())
    assert record["dictionary"]["names"] == ["mine", "synthetic"]
    assert record["command"].startswith("residual-audio describe")
    assert (folder / "figures" / "accuracy_vs_k.png").stat().st_size > 10_000
    assert (folder / "figures" / "accuracy_vs_k.pdf").exists()


def test_errors_are_one_clear_line(command, folder, tmp_path, capsys):
    for words, says in (
        (("describe", tmp_path / "nothing"), "no run.json"),
        (("describe", folder, "--dictionary", "audoset"), "no dictionary"),
        (("describe", folder, "--method", "guess"), "textspan, somp, correlation"),
        (("describe", folder, "--units", "S7"), "names no unit"),
        (("describe", folder, "--no-select", "--class-template", "plain"), "--no-select leaves out"),
        (("report", folder, "--no-model", "--words", 3, "--template", "plain"), "--words, --template: read by the model's part"),
    ):
        assert command(*words) == 2
        told = capsys.readouterr().err
        assert says in told.replace("\n", " ")
        assert "Traceback" not in told
