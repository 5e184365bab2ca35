"""``residual-audio retrieve`` as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch
import typer
from typer.testing import CliRunner

from residual_audio.adaptation.adapter import save_adapter
from residual_audio.cli import app
from residual_audio.cli.options import Data
from residual_audio.cli.retrieve import captioned
from residual_audio.data import DataError, load_dataset
from residual_audio.evaluation import EvaluationError
from residual_audio.evaluation.retrieval import retrieve
from residual_audio.models import load_encoder
from tests.helpers.gains import made_up

COMMAND = Path(sys.executable).parent / "residual-audio"


def run(*words: object, code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == code, done.stderr + done.stdout
    return done


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Caption columns as caption datasets have them: files by another name, several captions, no labels."""
    path = tmp_path_factory.mktemp("captions") / "eval.csv"
    clips = load_dataset("synthetic-captions", per_class=1).clips[:16]
    rows = [{"file_name": c.path, "caption_1": c.captions[0], "caption_2": " ".join(c.captions[1:2])} for c in clips]
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def test_with_and_without_an_adapter(table, tmp_path):
    encoder = load_encoder("tiny")
    residual = made_up(encoder, "S3B1 heads", "keep")
    save_adapter(tmp_path / "adapter", encoder, residual)
    words = ("retrieve", "tiny", table, "--path", "file_name", "--caption", "caption_1,caption_2", "--out", tmp_path / "out")
    done = run(*words, "--adapter", tmp_path / "adapter")
    assert "audio→text" in done.stdout
    assert "difference" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    stored = pd.read_parquet(tmp_path / "out" / "tables" / "retrieval.parquet")
    assert len(stored) == 16
    data = load_dataset(str(table), path="file_name", label="file_name", caption=["caption_1", "caption_2"])
    expected = retrieve(encoder, data).table()
    pd.testing.assert_frame_equal(stored[stored.model == "base"].drop(columns="model").reset_index(drop=True), expected)
    difference = pd.read_csv(tmp_path / "out" / "tables" / "retrieval_difference.csv")
    sides = stored.pivot(index=["direction", "measure"], columns="model", values="value")
    joined = difference.set_index(["direction", "measure"]).join(sides)
    assert (joined.difference - (joined.adapted - joined.base)).abs().max() < 1e-9
    assert (joined.low <= joined.difference).all()
    assert joined.difference.abs().max() > 0, "these gains change the model"
    record = json.loads((tmp_path / "out" / "retrieval.json").read_text())
    assert record["clips"]["captions"] == data_captions(data)
    assert record["settings"]["adapter"].endswith("adapter")
    assert record["dataset"]["notes"]["caption"] == ["caption_1", "caption_2"]


def data_captions(data) -> int:
    return len({text for clip in data.clips for text in clip.captions})


def test_gains_of_one_change_nothing(table, tmp_path):
    encoder = load_encoder("tiny")
    residual = made_up(encoder, "S3B1 heads", "keep")
    save_adapter(tmp_path / "adapter", encoder, residual.with_gains([torch.ones_like(s.gain) for s in residual.sets]))
    words = ["retrieve", "tiny", table, "--path", "file_name", "--caption", "caption_1", "--adapter", tmp_path / "adapter"]
    done = CliRunner().invoke(app, [str(w) for w in [*words, "--out", tmp_path / "out"]])
    assert done.exit_code == 0, done.output
    difference = pd.read_csv(tmp_path / "out" / "tables" / "retrieval_difference.csv")
    assert (difference[["difference", "low", "high"]] == 0).all(axis=None)


def test_a_dataset_without_captions_says_how_to_give_them(table):
    done = CliRunner().invoke(app, ["retrieve", "tiny", "synthetic-timbre", "--limit", "4"])
    assert isinstance(done.exception, EvaluationError)
    assert "--caption" in str(done.exception)
    with pytest.raises(DataError, match="no column 'nope'"):
        captioned(str(table), Data(), "nope", "file_name")
    with pytest.raises(typer.BadParameter, match="for tables and hf:"):
        captioned("synthetic", Data(), "caption", None)
    with pytest.raises(typer.BadParameter, match="single column"):
        captioned("hf:me/data", Data(), "a,b", None)
    with pytest.raises(typer.BadParameter, match="is no table"):
        captioned("synthetic-captions", Data(), None, "path")
