"""What a new user runs into: told before work begins, in one line, and in words that help."""

import inspect
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal, get_args, get_origin

import numpy as np
import pandas as pd
import pytest
import soundfile
from typer.models import ArgumentInfo

import residual_audio as ra
from residual_audio import progress
from residual_audio.cli import VERBS, app, screen
from residual_audio.cli.checks import check_device, check_model, no_answer, writable
from residual_audio.options import OptionError
from residual_audio.registry import words_in_files
from residual_audio.results import write_record
from tests.helpers.hub import running_hub


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
        "import os, sys; from residual_audio.cli.checks import writable\n"
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


def test_a_path_that_leads_nowhere_is_told(tmp_path):
    for model in (f"{tmp_path}/none", "./none", "a/b/c", "none.pth", "none.pt"):
        with pytest.raises(OptionError, match="no such file or folder"):
            check_model(model)
    with pytest.raises(OptionError, match=r"no config\.json"):
        check_model(str(tmp_path))
    for known in ("tiny", "msclap-2023", "msclap", "microsoft/msclap", "630k-audioset-best.pt"):
        check_model(known)


# A misspelt model, dataset, path or name for every verb that takes one, and what is said.
TYPOS = {
    **{f"{verb} tny notes --out x": "did you mean tiny?" for verb in ("extract", "compare", "few-shot", "search", "adapt", "truncate")},
    **{f"{verb} tny notes": "did you mean tiny?" for verb in ("zero-shot", "retrieve", "ablate")},
    **{f"{verb} tiny nots --out x": "did you mean notes?" for verb in ("extract", "compare", "few-shot", "search", "adapt", "truncate")},
    **{f"{verb} tiny nots": "did you mean notes?" for verb in ("zero-shot", "retrieve", "ablate")},
    **{f"{verb} ./none": "no run.json" for verb in ("describe", "analyze", "report", "check", "ask ./none")},
    "zero-shot laion/clap-htsat-unfusd notes": "did you mean laion/clap-htsat-unfused",
    "zero-shot ./none notes": "no model at ./none",
    "zero-shot tiny ./none.csv": "none.csv",
    "zero-shot tiny notes --classifier probee": "did you mean probe",
    "zero-shot tiny notes --template soundof": "sound-of",
    "zero-shot tiny notes --folds officiel": "'official', 'stratified'",
    "compare tiny notes --classifier prompts,gdda --out x": "did you mean gda",
    "compare tiny notes --other nots --out x": "did you mean notes?",
    "compare tiny notes --methods resdual --out x": "did you mean residual",
    "adapt tiny notes --form gain --out x": "gains",
    "ablate tiny notes --how men": "'zero', 'mean'",
    "fold tny ./none --out x": "did you mean tiny?",
    "fold tiny ./none --out x": "no such folder",
    "retrieve tiny notes --adapter ./none": "no such folder",
    "report RUN --compare ./none": "--compare ./none",
    "report RUN --adapter ./none": "no such folder",
    "describe RUN --dictionary audioste": "did you mean audioset?",
    "describe RUNN": "did you mean RUN?",
    "reproduce seed1-1 --model tny": "did you mean tiny?",
    "extract tiny notes --limt 3 --out x": "--limit",
    "extract tiny notes": "missing option '--out'",
    "extract tiny notes --limit many --out x": "--limit",
    "extract tiny notes --limit 8 --sample frist --out x": "stratified, first",
    "extrct tiny notes": "did you mean 'extract'",
}


def literals(annotation) -> tuple[str, ...]:
    """The words that an option takes, where it takes a few words only."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return next((found for part in get_args(annotation) if (found := literals(part))), ())


def choices() -> dict[str, tuple[str, ...]]:
    """A wrong word for every option of every verb that takes a few words only, and the words that it takes."""
    found = {}
    for verb, function in (pair for panel in VERBS.values() for pair in panel.items()):
        parameters = inspect.signature(function, eval_str=True).parameters
        needed = [p for p in parameters.values() if p.default is p.empty and isinstance(p.annotation.__metadata__[0], ArgumentInfo)]
        for name, p in parameters.items():
            if known := literals(p.annotation):
                info = p.annotation.__metadata__[0]
                own = [str(word) for word in (info.default, *(info.param_decls or ())) if str(word).startswith("--")]
                flag = next(iter(own), f"--{name.replace('_', '-')}")
                found[f"{verb} {'x ' * len(needed)}{flag} nonsense"] = known
    return found


MISTYPING = """
import json, shlex, sys
from residual_audio.cli import main
for line in json.loads(sys.argv[1]):
    sys.argv = ["residual-audio", *shlex.split(line)]
    print(f"\\n# {line}", file=sys.stderr, flush=True)
    try: main()
    except SystemExit as ended: print(f"= {ended.code} {'torch' in sys.modules}", file=sys.stderr, flush=True)
"""


def test_a_typo_does_not_wait_for_torch(tmp_path):
    (tmp_path / "RUN").mkdir()
    (tmp_path / "RUN" / "run.json").write_text("{}")
    done = subprocess.run(
        [sys.executable, "-c", MISTYPING, json.dumps([*TYPOS, *(wrong := choices())])],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "400"},
    )
    told = {part.partition("\n")[0]: part for part in done.stderr.split("\n# ")[1:]}
    for line, expected in (TYPOS | {line: ", ".join(map(repr, known)) for line, known in wrong.items()}).items():
        assert expected.lower() in told[line].lower(), told[line]
        assert told[line].splitlines()[1].startswith("error: "), told[line]
        assert told[line].splitlines()[2:] == ["= 2 False"], told[line]
    assert {line.split()[-2] for line in wrong} >= {"--regime", "--level", "--how", "--space", "--engine"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["RUN"], "nothing was claimed"


def test_the_hub_is_asked_once(tmp_path):
    with running_hub() as hub:
        hub.files["me/gains"] = {"config.json": b"{}"}
        assert no_answer(f"{hub.address}/me/gains/resolve/main/config.json", {}) == ""
        assert "no such model" in no_answer(f"{hub.address}/me/gains/resolve/main/none.json", {})
    assert "no connection" in no_answer(f"{hub.address}/me/gains/resolve/main/config.json", {})


@pytest.mark.parametrize("package", ["models/encoders", "evaluation/classifiers"])
def test_every_name_is_written_down_in_its_file(package):
    """So that a name that is wrong can be told without importing torch, and no name that is right is refused."""
    from residual_audio.evaluation import CLASSIFIERS
    from residual_audio.models import ENCODERS, known_models

    names = {n for kind in ENCODERS.values() for n in kind.own_names} | {m.name for m in known_models()} - {"PATH"}
    assert (names if "encoders" in package else set(CLASSIFIERS)) <= words_in_files(package)


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


# A shell starts what is in the background with SIGINT ignored; a user's Ctrl-C is not.
AT_A_KEYBOARD = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from residual_audio.cli import main; main()"


def test_stopping_says_how_to_go_on(tmp_path):
    """The signal itself, to the command itself: in between, Typer would end it without a word."""
    words = ["extract", "tiny", "synthetic-voice", "--batch-size", "1", "--out", str(tmp_path / "run")]
    process = subprocess.Popen([sys.executable, "-c", AT_A_KEYBOARD, *words], stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not list(tmp_path.glob("run/shards/*.safetensors")):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[1]
    assert process.returncode == 130, told
    assert "stopped; finished parts stay, and the same command resumes from there" in told


def test_python_shows_what_there_is():
    assert {"load_encoder", "zero_shot", "compare", "report"} <= set(dir(ra))
    data = ra.load_dataset("synthetic-voice", per_class=2)
    assert repr(data) == "<Dataset synthetic-voice · 16 clips, 8 classes, folds: stratified>"
    result = ra.zero_shot(ra.load_encoder("tiny"), data.limited(8))
    assert len(repr(result)) < 200
    assert ".write(folder)" in repr(result)


@pytest.mark.parametrize("verb", ["zero-shot", "ablate", "describe", "ask", "extract", "analyze"])
def test_python_and_the_command_have_the_same_defaults(verb):
    import typer.main

    options = {p.name: p.default for p in typer.main.get_command(app).commands[verb].params if p.default is not None}
    parameters = inspect.signature(getattr(ra, verb.replace("-", "_"))).parameters
    shared = [n for n in options if n in parameters and parameters[n].default not in (inspect.Parameter.empty, None)]
    assert shared
    for name in shared:
        default = parameters[name].default  # where Python takes a list, the command takes words with commas
        assert options[name] == (",".join(default) if isinstance(default, tuple) else default), name


def test_a_curve_says_how_many_clips_there_were(capsys):
    from types import SimpleNamespace

    from residual_audio.cli.few_shot import show

    row = {"method": "plain", "accuracy": 0.5, "std": 0.1, "train": 9.0}
    table = pd.DataFrame([{**row, "shots": "4", "seen": 4.0}, {**row, "shots": "16", "seen": 12.0}, {**row, "shots": "all", "seen": 12.0}])
    show(SimpleNamespace(curve=table), "x")
    assert "16 (12 there)" in capsys.readouterr().out


@pytest.fixture
def table(tmp_path):
    """Hiss and tones in two folds, and one sound under a name that is not there; and a table of nothing that can be read."""
    t, rng, lines = np.arange(4000) / 16000, np.random.default_rng(0), []
    for i in range(40):
        path = tmp_path / f"{i}.wav"
        soundfile.write(path, 0.1 * (rng.standard_normal(len(t)) if i % 4 < 2 else np.sin(2 * np.pi * rng.uniform(300, 900) * t)), 16000)
        lines.append(f"{path},{('hiss', 'tone')[i % 4 // 2]},{1 + i % 2},{i}")
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text("\n".join(["path,label,fold,group", *lines, f"{tmp_path}/gone.wav,hiss,1,x"]) + "\n")
    bad.write_text("\n".join(["path,label,fold", *(f"{tmp_path}/none{i}.wav,{label},{i % 2}" for i, label in enumerate("abab"))]) + "\n")
    return good, bad


def test_unreadable_clips_are_named_and_a_failed_comparison_claims_nothing(command, capsys, table, tmp_path):
    good, bad = table
    out = tmp_path / "compared"
    assert command("compare", "tiny", bad, "--methods", "plain", "--out", out) == 2
    assert "none of 4 clips could be read" in capsys.readouterr().err.replace("\n", " ")
    assert command("compare", "tiny", good, "--methods", "plain", "--out", out) == 0
    assert "gone.wav" in capsys.readouterr().err.replace("\n", "")
    assert (
        command("adapt", "tiny", good, "--form", "gains", "--units", "S3B1 heads", "--epochs", "1", "--no-held", "--out", tmp_path / "a")
        == 0
    )
    assert "gone.wav" in capsys.readouterr().err.replace("\n", "")


def test_a_window_of_one_length_takes_no_other(command, capsys):
    assert command("zero-shot", "tiny", "notes", "--seconds", "5") == 2
    assert "window of one length; leave it out" in " ".join(capsys.readouterr().err.split())
