"""The command as a user runs it: real files and exit codes; a real process where that could matter."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import soundfile

from residual_audio.cli.screen import KNOWN_ERRORS, is_known
from residual_audio.data import DATASETS, TEMPLATES, Shipped
from residual_audio.evaluation import CLASSIFIERS

COMMAND = Path(sys.executable).parent / "residual-audio"


def run(*words: object, code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == code, done.stderr + done.stdout
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("mine")
    rng = np.random.default_rng(0)
    for label in ("rain", "bell"):
        (root / label).mkdir()
        for i in range(3):
            soundfile.write(root / label / f"{i}.wav", 0.1 * rng.standard_normal(8000), 16000)
    (root / "rain" / "bad.wav").write_text("x")
    return root


LISTS = ("models", "datasets")  # their examples show what to do with a name
VERBS = ["models", "datasets", "zero-shot", "retrieve", "extract", "analyze", "ablate", "describe", "ask", "adapt", "fold", "compare",
         "few-shot", "search", "report", "serve", "reproduce", "demo"]  # fmt: skip


def test_help_in_a_process_of_its_own():
    text = run("--help").stdout
    assert "Usage" in text
    for verb in VERBS:
        assert verb in text


@pytest.mark.parametrize("verb", VERBS)
def test_help_teaches_with_an_example(command, capsys, verb):
    assert command(verb, "--help") == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.strip().startswith(f"residual-audio {verb}") for line in lines) or verb in LISTS, "no example on a line of its own"
    assert any(line.strip().startswith("residual-audio ") for line in lines)


def test_lists(command, capsys):
    assert command("models") == 0
    assert "tiny" in capsys.readouterr().out
    assert command("datasets") == 0
    listed = capsys.readouterr().out
    for source in DATASETS.values():
        assert source.shown in listed
        assert source.help.split()[0] in listed
        if isinstance(source, Shipped):
            assert f"{source.licence}: {source.credit}" in " ".join(listed.replace("│", " ").split())


@pytest.mark.parametrize("verb", ["zero-shot", "ablate"])
def test_help_lists_every_classifier_and_template(command, capsys, verb):
    assert command(verb, "--help") == 0
    words = capsys.readouterr().out.replace("│", " ").split()
    for name, one in CLASSIFIERS.items():
        assert f"{name} ({one.help})" in " ".join(words)
    for name in TEMPLATES:
        assert any(word.strip("(),") == name for word in words)


def test_zero_shot_leaves_a_complete_record(folder, tmp_path):
    done = run("zero-shot", "tiny", f"folder:{folder}", "--out", tmp_path / "run", "--template", "ensemble")
    assert "top1" in done.stdout
    assert "1 of 7 clips could not be read" in done.stderr
    assert "bad.wav" in done.stderr.replace("\n", "")
    assert "\x1b" not in done.stdout + done.stderr, "no colours or bars where there is no terminal"
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["model"]["name"] == "tiny"
    assert record["model"]["revision"].startswith("sha256:")
    assert record["preprocessing"]["hash"]
    assert record["settings"]["template"] == "ensemble"
    assert record["settings"]["seed"] == 0
    assert record["clips"] == {"used": 6, "errors": 1}
    assert record["versions"]["torch"]
    clips = pd.read_parquet(tmp_path / "run" / "clips.parquet")
    assert clips.status.value_counts().to_dict() == {"ok": 6, "error": 1}
    classes = pd.read_csv(tmp_path / "run" / "tables" / "classes.csv")
    assert classes.fillna("").equals(pd.read_parquet(tmp_path / "run" / "tables" / "classes.parquet"))
    assert (tmp_path / "run" / "tables" / "confusion.csv").exists()


def test_strict_turns_a_broken_clip_into_a_failure(command, folder):
    assert command("zero-shot", "tiny", f"folder:{folder}") == 0
    assert command("zero-shot", "tiny", f"folder:{folder}", "--strict") == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("zero-shot", "tiny", "synthetik"), "did you mean synthetic"),
        (("zero-shot", "tiny", "esc50", "--data-root", "/nowhere"), "/nowhere"),
        (("zero-shot", "tiny", "synthetic-voice", "--limit", "8", "--crop", "middle"), "one of start, centre, windows"),
        (("zero-shot", "tiny", "synthetic-voice", "--limit", "8", "--template", "nonsense"), "one of sound-of"),
        (("zero-shot", "tiny", "synthetic-voice", "--limit", "8", "--classifier", "probe", "--template", "plain"), "reads no prompts"),
        (("zero-shot", "tiny", "synthetic-voice", "--classifier", "centroid"), "did you mean centroids"),
        (("zero-shot", "tiny", "synthetic-voice", "--data-root", "/nowhere"), "lies in no folder"),
        (("ablate", "tiny", "synthetic-voice", "--units", "S9 heads"), "names no unit"),
    ],
)
def test_errors_are_one_clear_line(command, capsys, words, says):
    assert command(*words) == 2
    told = capsys.readouterr().err
    assert says in told.replace("\n", " ")
    assert "Traceback" not in told


def test_an_error_in_a_process_of_its_own():
    done = run("zero-shot", "tinny", "synthetic", code=2)
    assert "did you mean tiny" in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


def test_every_known_error_is_where_the_list_says():
    """And an error that is not in it keeps its trace."""
    for module, name in KNOWN_ERRORS.items():
        kind = getattr(importlib.import_module(f"residual_audio.{module}"), name)
        assert is_known(kind("told"))
    assert not is_known(ValueError("a bug"))


def test_an_unread_option_is_told_before_anything_heavy_is_loaded():
    program = (
        "import sys; sys.argv = ['residual-audio', 'compare', 'tiny', 'synthetic', '--methods', 'plain', '--rate', '1', '--out', 'x']\n"
        "from residual_audio.cli import main\n"
        "try: main()\n"
        "except SystemExit as ended: print(ended.code, sorted({'torch', 'transformers', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2 []"
    assert "--rate does nothing for plain" in done.stderr


def test_the_demo_classifies_looks_inside_and_retunes(tmp_path):
    done = run("demo", "--limit", "20", "--out", tmp_path)
    for name in ("notes", "synthetic"):
        assert name in done.stdout
        record = json.loads((tmp_path / name / "run.json").read_text())
        clips, classes = pd.read_parquet(tmp_path / name / "clips.parquet"), pd.read_csv(tmp_path / name / "tables" / "classes.csv")
        assert len(clips) == record["clips"]["used"] == 20
        right = record["result"]["top1"]["value"]
        assert right == pytest.approx(np.average(classes.accuracy, weights=classes.clips))
        assert right > 1.5 / len(classes), f"{name}: better than chance"
    for kind, count in (("block", 12), ("head", 184)):
        assert len(pd.read_parquet(tmp_path / "run" / "tables" / f"ablation_{kind}.parquet")) == count
    assert len(list((tmp_path / "run" / "figures").glob("*.png"))) == 17
    assert "residual" in (tmp_path / "compare" / "tables" / "comparison_summary.csv").read_text()
    for place in ("adapter/adapter_model.safetensors", "folded/model.safetensors", "run/tables/paper"):
        assert (tmp_path / place).exists()
    lines = done.stdout.splitlines()
    steps = [line for line in lines if line.split("/7 ")[0].isdigit()]  # a slow machine also says how far a step is
    assert [line.split()[0] for line in steps] == [f"{number}/7" for number in range(1, 8)], "one line per step"
    assert all("left)" in line for line in steps[1:])
    assert lines[-1] == str(tmp_path / "run" / "report.html")
    page = Path(lines[-1]).read_text()
    assert "data:audio/" in page
    assert DATASETS["notes"].credit in page
    assert max(len(line) for line in lines if str(tmp_path) not in line) <= 80
    assert not done.stderr, "no bars where there is no terminal"


def test_the_demo_without_a_folder_only_classifies(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command("demo", "--limit", "20") == 0
    assert "1/1 classify" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
