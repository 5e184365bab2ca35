"""``residual-audio retrieve`` as a user runs it."""

import json
import subprocess
import sys
from dataclasses import replace
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


def test_one_row_per_caption_of_real_notes(tmp_path):
    """Against the same notes as the dataset has them: one row per note, or one per caption, with ids of their own and other endings."""
    notes = load_dataset("notes").limited(20)
    folder = Path(notes.clips[0].path).parent
    rows = [(f"{c.id}.wav", text, c.group) for c in notes.clips for text in (*c.captions, f"a sound of {c.label}")]
    table = pd.DataFrame(rows, columns=["file", "caption", "instrument"])
    table.assign(id=range(len(table))).sample(frac=1, random_state=0).sort_values("caption").to_csv(tmp_path / "rows.csv", index=False)
    words = ["retrieve", "tiny", f"table:{tmp_path}/rows.csv", "--path", "file", "--audio", folder, "--group", "instrument"]
    done = CliRunner().invoke(app, [str(w) for w in [*words, "--out", tmp_path / "out"]])
    assert done.exit_code == 0, done.output
    stored = pd.read_parquet(tmp_path / "out" / "tables" / "retrieval.parquet").set_index(["direction", "measure"])
    both = [replace(c, captions=(*c.captions, f"a sound of {c.label}")) for c in notes.clips]
    expected = retrieve(load_encoder("tiny"), replace(notes, clips=tuple(both))).table().set_index(["direction", "measure"])
    assert stored.candidates.to_dict() == expected.candidates.to_dict()
    assert (stored.value - expected.value).abs().max() < 1e-9
    assert (stored.high > stored.low).any()


def test_human_captions_of_real_recordings(shared, tmp_path):
    """Clotho's five captions of ESC-50's clips: of several clips cut from one upload, all are positives of its captions."""
    table, audio = shared / "data" / "captions" / "esc50-clotho.csv", shared / "data" / "esc50" / "audio"
    if not (table.exists() and audio.is_dir()):
        pytest.skip("needs ESC-50 and its captions in ../shared/data")
    options = ("--path", "esc50_filename", "--audio", audio, "--group", "freesound_id")
    done = CliRunner().invoke(app, [str(w) for w in ("retrieve", "tiny", f"table:{table}", *options, "--out", tmp_path)])
    assert done.exit_code == 0, done.output
    rows = pd.read_csv(table)
    texts = rows.filter(like="caption_").stack()
    stored = pd.read_parquet(tmp_path / "tables" / "retrieval.parquet")
    assert dict(zip(stored.direction, stored.candidates, strict=True)) == {
        "text→audio": len(rows),
        "audio→text": texts.str.split().str.join(" ").nunique(),
    }
    assert json.loads((tmp_path / "retrieval.json").read_text())["clips"]["errors"] == 0
    queries = pd.read_parquet(tmp_path / "tables" / "retrieval_queries.parquet")
    assert queries[queries.direction == "text→audio"].positives.max() == rows.freesound_id.value_counts().max()


def test_gains_of_one_change_nothing(table, tmp_path):
    encoder = load_encoder("tiny")
    residual = made_up(encoder, "S3B1 heads", "keep")
    save_adapter(tmp_path / "adapter", encoder, residual.with_values([torch.ones_like(s.values) for s in residual.sets]))
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
        captioned(str(table), Data(path="file_name"), "nope")
    with pytest.raises(typer.BadParameter, match="for tables and hf:"):
        captioned("synthetic", Data(), "caption")
    with pytest.raises(typer.BadParameter, match="single column"):
        captioned("hf:me/data", Data(), "a,b")
    with pytest.raises(typer.BadParameter, match="is no table"):
        captioned("synthetic-captions", Data(path="path"), None)
    with pytest.raises(typer.BadParameter, match="is no table"):
        captioned("notes", Data(), None, table.parent)
