"""The script that trains the embedded model: killed and resumed, it gives the same weights, and the card says what the log says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from transformers import ClapModel

SCRIPT = Path(__file__).parents[2] / "scripts" / "train_tiny.py"
SMALL = {"per-class": 2, "per-weight": 0, "per-recording": 0, "judged": 1, "epochs": 3, "batch-size": 16, "processes": 1}


def start(out: Path, work: Path) -> subprocess.Popen[bytes]:
    small = [word for name, value in SMALL.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, str(SCRIPT), "--out", str(out), "--work", str(work), "--precision", "float32", *small]
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(training: subprocess.Popen[bytes]) -> None:
    _, errors = training.communicate(timeout=300)
    assert training.returncode == 0, errors.decode()


def test_the_words_of_the_held_out_recordings_are_in_the_captions(shared, monkeypatch):
    """Families and instruments are asked for by words that other sounds have taught: no clip of these sets is needed for that."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from tiny.instruments import EXTRA, PROGRAMS

    known = {noun for p in (*PROGRAMS.values(), *(e for _, e in EXTRA)) for noun in (*p.nouns, *p.family_nouns)}
    for name in ("nsynth", "philharmonia"):
        labels = set(pd.read_csv(shared / "data" / name / "clips.csv").label)
        assert labels <= known, f"{name}: {labels - known}"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained")
    finish(start(out / "model", out / "work"))
    return out


def test_a_training_that_was_killed_gives_the_same_weights(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "cache").symlink_to(trained / "work" / "cache")
    training = start(tmp_path / "model", tmp_path / "work")
    state = tmp_path / "work" / "state.pt"
    while not state.exists():
        assert training.poll() is None, "it ended before it had saved anything"
        time.sleep(0.02)
    os.killpg(training.pid, signal.SIGKILL)
    training.wait()
    assert not (tmp_path / "model" / "model.safetensors").exists(), "it had finished before it was killed"
    finish(start(tmp_path / "model", tmp_path / "work"))
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == (trained / "model" / "model.safetensors").read_bytes()


def test_the_checkpoint_is_an_ordinary_one_and_its_card_has_the_figures_of_its_log(trained: Path) -> None:
    ClapModel.from_pretrained(trained / "model")
    log = json.loads((trained / "model" / "training.json").read_text())
    card = (trained / "model" / "README.md").read_text()
    assert len(log["epochs"]) == 3
    for row in log["epochs"]:
        assert f"| {row['epoch']} | {row['loss']:.2f} | {100 * row['zero_shot_source']:.1f} |" in card
    assert f"{log['clips']['synthesised']:,} synthesised clips" in card
