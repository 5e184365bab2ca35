"""What a new user runs into: told before work begins, in one line, and in words that help."""

import inspect
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import residual_audio as ra
from residual_audio import progress
from residual_audio.cli import app, screen
from residual_audio.cli.options import check_device, check_place, writable
from residual_audio.options import OptionError
from residual_audio.results import write_record


def test_an_out_that_cannot_be_written_is_told_before_work_begins(tmp_path, command, capsys, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match="is a file, not a folder"):
        writable(tmp_path / "file" / "below")
    monkeypatch.setattr("residual_audio.data.load_dataset", lambda *a, **k: pytest.fail("work began"))
    for verb in ("adapt", "compare", "few-shot", "zero-shot", "extract", "ablate"):
        assert command(verb, "tiny", "synthetic-voice", "--out", tmp_path / "file" / "out") == 2
        assert "is a file" in capsys.readouterr().err, verb
    writable(tmp_path / "new" / "folder")
    assert not (tmp_path / "new").exists(), "looking leaves nothing behind"


def test_a_folder_without_permission_is_told():
    """Dropped rights in a child: root may write anywhere."""
    program = (
        "import os, sys; from residual_audio.cli.options import writable\n"
        "os.chdir(sys.argv[1]); os.geteuid() or os.setuid(65534)\n"
        "try: writable('closed/out')\nexcept ValueError as error: print(error)"
    )
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o755)
        (Path(home) / "closed").mkdir(mode=0o555)
        done = subprocess.run([sys.executable, "-c", program, home], capture_output=True, text=True)
    assert "nothing can be written to closed (Permission denied)" in done.stdout, done.stderr


def test_a_device_that_is_not_there_is_told(command, capsys):
    with pytest.raises(OptionError, match="--device nonsense"):
        check_device("nonsense")
    assert command("zero-shot", "tiny", "synthetic-voice", "--device", "cuda:99") == 2
    assert "--device cuda:99: not to be had here" in capsys.readouterr().err.replace("\n", " ")


def test_a_path_that_leads_nowhere_is_told_without_torch(tmp_path):
    for model in (f"{tmp_path}/none", "./none", "a/b/c", "none.pth"):
        with pytest.raises(OptionError, match="no such file or folder"):
            check_place(model)
    program = (
        "import sys; from residual_audio.cli.options import Data, check_place\n"
        "for work in (lambda: check_place('./none'), lambda: Data().open('sinthetic')):\n"
        "    try: work()\n    except ValueError as error: print(error)\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.endswith("False\n"), done
    assert "did you mean synthetic" in done.stdout


def test_records_are_json(tmp_path):
    write_record(tmp_path / "r.json", {"loss": math.nan, "rows": [{"x": math.inf}, (1.5, np.float64("nan"))]})

    def refuse(word):
        raise AssertionError(word)

    record = json.loads((tmp_path / "r.json").read_text(), parse_constant=refuse)
    assert record["loss"] is None
    assert record["rows"] == [{"x": None}, [1.5, None]]


def test_without_a_terminal_a_line_comes_every_half_minute(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "errors", screen.Screen(file=sys.stdout, force_terminal=False, width=200))
    with progress.told_in_lines(), progress.progress("decoding", 110, done=10) as advance:
        for _ in range(10):
            now[0] += 10
            advance(10)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"decoding: {10 + n} of 110, 1.0/s, about {(100 - n) / 60:.1f} min left" for n in (30, 60, 90)]


def test_stopping_says_how_to_go_on(capsys):
    with pytest.raises(SystemExit) as ended, screen.fail_clearly():
        raise KeyboardInterrupt
    assert ended.value.code == 130
    assert "the same command resumes" in capsys.readouterr().err


def test_python_shows_what_there_is():
    assert {"load_encoder", "zero_shot", "compare", "report"} <= set(dir(ra))
    data = ra.load_dataset("synthetic-voice", per_class=2)
    assert repr(data) == "<Dataset synthetic-voice · 16 clips, 8 classes, folds: stratified>"
    result = ra.zero_shot(ra.load_encoder("tiny"), data.limited(8))
    assert len(repr(result)) < 200
    assert ".write(folder)" in repr(result)


# Where Python takes a list, the command takes words with commas.
SAME = {"similarity", "granularity", "methods", "method", "shots", "units"}


@pytest.mark.parametrize("verb", ["zero-shot", "ablate", "describe", "ask", "extract", "analyze"])
def test_python_and_the_command_have_the_same_defaults(verb):
    import typer.main

    options = {p.name: p.default for p in typer.main.get_command(app).commands[verb].params if p.default is not None}
    parameters = inspect.signature(getattr(ra, verb.replace("-", "_"))).parameters
    shared = [n for n in options if n in parameters and parameters[n].default not in (inspect.Parameter.empty, None) and n not in SAME]
    assert shared
    for name in shared:
        assert options[name] == parameters[name].default, name


def test_a_curve_says_how_many_clips_there_were(capsys):
    from types import SimpleNamespace

    from residual_audio.cli.few_shot import show

    row = {"method": "plain", "accuracy": 0.5, "std": 0.1, "train": 9.0}
    table = pd.DataFrame([{**row, "shots": "4", "seen": 4.0}, {**row, "shots": "16", "seen": 12.0}, {**row, "shots": "all", "seen": 12.0}])
    show(SimpleNamespace(curve=table), "x")
    assert "16 (12 there)" in capsys.readouterr().out
