"""``report`` as a user runs it: a run in, one page out; what cannot be done is said."""

import json
import re

import pytest

from residual_audio.data import load_dataset
from residual_audio.extraction import extract
from residual_audio.models import load_encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    run = tmp_path_factory.mktemp("run") / "r"
    extract(load_encoder("tiny"), load_dataset("synthetic-voice", per_class=1), run, ("head", "direct"))
    return run


def data_of(path):
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"), re.S).group(1))


def test_a_run_alone_becomes_a_page_that_names_what_is_missing(command, folder, capsys):
    assert command("report", folder, "--clips", 6, "--words", 5) == 0
    page = folder / "report.html"
    assert str(page) in capsys.readouterr().out.replace("\n", "")
    data = data_of(page)
    assert set(data["missing"]) == {"heads", "ablation_head", "descriptions"}
    assert len(data["clips"]) == 6
    assert all(c["audio"].startswith("data:audio/") for c in data["clips"])
    assert len(data["equaliser"]["clips"]) == 6
    assert not data["equaliser"]["learned"]
    assert [t["kind"] for t in data["ask"]["texts"]].count("word") == 5
    assert data["commands"][-1].startswith(f"residual-audio report {folder}")
    assert data["commands"][0].startswith("residual-audio extract tiny synthetic-voice")


def test_without_model_and_sounds_it_is_smaller(command, folder, tmp_path):
    assert command("report", folder, "--no-model", "--audio", "none", "--clips", 6, "--out", tmp_path / "x" / "page.html") == 0
    data = data_of(tmp_path / "x" / "page.html")
    assert data["equaliser"] is None
    assert data["ask"] is None
    assert not any("audio" in c for c in data["clips"])
    assert len(data["components"]) == 184


def test_what_is_no_run_or_no_adapter_is_said(command, folder, tmp_path, capsys):
    assert command("report", tmp_path) == 2
    assert "no run.json" in capsys.readouterr().err
    assert command("report", folder, "--adapter", tmp_path) == 2
    assert "residual-audio adapt" in capsys.readouterr().err.replace("\n", " ")
    assert command("report", folder, "--audio", "loud") == 2
