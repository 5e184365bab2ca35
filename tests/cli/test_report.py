"""``report`` as a user runs it: a run in, one page out; what cannot be done is said."""

import json
import re
import shutil

import pytest

from residual_audio.data import load_dataset
from residual_audio.extraction import extract
from residual_audio.models import load_encoder
from residual_audio.report import report
from residual_audio.report.page.page import PageError


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
    assert "embed" in capsys.readouterr().err


def test_python_does_what_the_command_does(command, folder, tmp_path):
    assert command("report", folder, "--clips", 6, "--words", 5, "--out", tmp_path / "by-command.html") == 0
    told, steps = [], []
    path = report(
        str(folder), tmp_path / "by-python.html", clips=6, words=5, advance=steps.append, tell=told.append
    )  # fmt: skip
    ours, theirs = data_of(path), data_of(tmp_path / "by-command.html")
    for page in (ours, theirs):
        del page["commands"]
        page["meta"] |= {"made": "", "name": ""}
    assert ours == theirs
    assert told == []
    assert sum(steps) == 12, "each clip once for the model and once for the page"
    with pytest.raises(PageError, match="embed, link, none"):
        report(folder, audio="loud")


def test_a_model_that_cannot_be_opened_is_told_and_the_page_says_so(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "r")
    info = json.loads((tmp_path / "r" / "run.json").read_text())
    info["model"]["revision"] = "other weights"
    (tmp_path / "r" / "run.json").write_text(json.dumps(info))
    told = []
    data = data_of(report(tmp_path / "r", clips=4, tell=told.append))
    assert data["equaliser"] is None
    assert data["meta"]["notes"] == told
    assert len(told) == 1
    assert told[0].startswith("The page has no Equaliser and no Ask:")
    with pytest.warns(UserWarning, match="no Equaliser"):
        report(tmp_path / "r", clips=4)


def test_classes_are_named_as_in_prompts(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "r")
    info = json.loads((tmp_path / "r" / "run.json").read_text())
    names = {label: f"the {i}th voice" for i, label in enumerate(info["labels"])}
    (tmp_path / "r" / "run.json").write_text(json.dumps(info | {"class_names": names}))
    data = data_of(report(tmp_path / "r", clips=4, words=0))
    assert data["classes"] == [names[label] for label in sorted(names)]
    assert [t["text"] for t in data["ask"]["texts"]] == data["classes"]
