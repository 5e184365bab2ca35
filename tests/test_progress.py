"""Long calls say how far they are wherever somebody looks, and nowhere else."""

import io
import os
import subprocess
import sys

import pytest
import torch

import residual_audio as ra
from residual_audio import progress
from residual_audio.extraction import Run

PROGRAM = """
import residual_audio as ra
encoder, data = ra.load_encoder("tiny"), ra.load_dataset("synthetic-voice", per_class=2)
ra.zero_shot(encoder, data, batch_size=4)
"""


def test_a_call_in_python_shows_a_bar_in_a_terminal():
    ours, theirs = os.openpty()
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=theirs, env={**os.environ, "COLUMNS": "120", "TERM": "xterm"}) as process:
        os.close(theirs)
        shown = b""
        while part := read(ours):
            shown += part
    assert process.returncode == 0, shown
    text = shown.decode()
    assert "tiny on synthetic-voice" in text
    assert "/16" in text
    assert "/s" in text, "no rate"


def read(handle: int) -> bytes:
    try:
        return os.read(handle, 1 << 16)
    except OSError:  # the other side is closed
        return b""


class Kept(progress.Display):
    """A display that remembers."""

    def __init__(self) -> None:
        self.steps: list[progress.Step] = []
        self.open: list[str] = []
        self.most, self.ended = 0, False

    def opened(self, step):
        self.steps.append(step)
        self.open.append(step.title)
        self.most = max(self.most, len(self.open))

    def closed(self, step):
        self.open.remove(step.title)

    def end(self):
        self.ended = True


@pytest.fixture
def seen(monkeypatch):
    kept = Kept()
    monkeypatch.setattr(progress, "new_display", lambda: kept)
    return kept


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Every long call by its name, with an encoder and clips."""
    encoder, data = ra.load_encoder("tiny"), ra.load_dataset("synthetic-voice", per_class=4)
    home, recipe = tmp_path_factory.mktemp("work"), ra.Recipe(form="gains", units="S3B1 heads", rate=0.1, epochs=2)
    run = ra.extract(encoder, data, home / "run", ["head", "moments", "embedding", "direct"])
    few = {"methods": ["somp"], "permutations": 2, "resamples": 0, "select": False, "encoder": encoder}
    return {
        "extract": lambda: ra.extract(encoder, data, home / "again", ["embedding"]),
        "zero_shot": lambda: ra.zero_shot(encoder, data),
        "retrieve": lambda: ra.retrieve(encoder, ra.load_dataset("synthetic-captions").limited(8)),
        "ablate": lambda: ra.ablate(encoder, data, "S3 blocks"),
        "analyze": lambda: ra.analyze(run),
        "describe": lambda: ra.describe(run, "synthetic", "S3B1 heads", **few),
        "adapt": lambda: ra.adapt(encoder, data, recipe, held=False),
        "compare": lambda: ra.compare(encoder, data, home / "compare", ["plain", "residual"], recipe),
        "few_shot": lambda: ra.few_shot(encoder, data, home / "few", ["plain"], shots=(1, None)),
        "search": lambda: ra.search(encoder, data, home / "search", "grid", recipe, settings=["rate=0.1"]),
        "report": lambda: ra.report(run, home / "page.html", clips=4, words=3),
        "embed": lambda: encoder.embed([torch.zeros(4000)] * 3, sample_rate=16000),
    }


# What the title of its own step begins with.
CALLS = {
    "extract": "tiny on",
    "zero_shot": "tiny on",
    "retrieve": "tiny on",
    "ablate": "ablation of",
    "analyze": "units on",
    "describe": "words for",
    "adapt": "epochs",
    "compare": "methods × folds",
    "few_shot": "points",
    "search": "trials",
    "report": "clips of the page",
    "embed": "tiny: clips",
}


@pytest.mark.parametrize("name", CALLS)
def test_every_long_call_says_how_far_it_is(name, work, seen):
    work[name]()
    own = [step for step in seen.steps if step.title.startswith(CALLS[name])]
    assert own, [s.title for s in seen.steps]
    assert all(step.done == step.total for step in seen.steps if step.title != "epochs, at most"), [s.text() for s in seen.steps]
    assert seen.ended
    assert not seen.open


def test_what_runs_inside_stands_below(work, seen):
    work["search"]()
    assert seen.most >= 2
    assert seen.steps[0].title == "trials"


def test_a_caller_of_its_own_is_told_instead(work, seen):
    told = []
    data = ra.load_dataset("synthetic-voice", per_class=1)
    ra.zero_shot(ra.load_encoder("tiny"), data, advance=told.append)
    assert sum(told) == len(data)
    assert not seen.steps


def test_an_error_ends_the_bar(seen):
    with pytest.raises(ZeroDivisionError), progress.progress("x", 3), progress.progress("y", 2):
        raise ZeroDivisionError
    assert seen.ended
    assert not seen.open


def test_nothing_is_shown_where_nobody_looks(monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr(progress, "errors", progress.Screen(file=file))
    with progress.progress("x", 3) as advance:
        advance(3)
    assert file.getvalue() == ""


def test_a_notebook_has_one_line_that_is_written_over(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress.errors, "is_jupyter", True)
    with progress.progress("clips", 4) as advance:
        for _ in range(4):
            now[0] += 2
            advance(1)
    shown = capsys.readouterr().err.split("\r")
    assert shown[1] == "clips: 1 of 4, 0.5/s, about 0.1 min left"
    assert len(shown) == 7
    assert shown[5].strip() == shown[6] == ""


def test_a_run_that_is_there_says_no_rate(seen, tmp_path):
    """What was done before counts as done, and not as speed."""
    data = ra.load_dataset("synthetic-voice", per_class=1)
    for _ in range(2):
        run = ra.extract(ra.load_encoder("tiny"), data, tmp_path / "run", ["embedding"])
    assert isinstance(run, Run)
    assert seen.steps[1].began_with == len(data) == seen.steps[1].done
