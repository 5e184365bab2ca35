"""The precision of a run: recorded as it is, never mixed, kept when a run is resumed or opens its encoder again; auto is settled once."""

import json

import pytest
import torch
from typer.testing import CliRunner

from residual_audio.ablation import ablate
from residual_audio.cli import app
from residual_audio.data import load_dataset
from residual_audio.evaluation import zero_shot
from residual_audio.extraction import Run, StoreError, extract
from residual_audio.models import load_encoder, precision
from residual_audio.models.precision import PrecisionError, bf16_ratio

DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"


@pytest.fixture
def able():
    if bf16_ratio() is None:
        pytest.skip("this CPU has no bf16")


@pytest.fixture
def unable(tmp_path, monkeypatch):
    """A CPU on which a bf16 product is an illegal instruction: the child that tries it dies of it."""
    tried = precision.tried
    monkeypatch.setattr(precision, "tried", lambda: tried(DIES))
    monkeypatch.setattr(precision, "answers", lambda: tmp_path / "bf16.json")


@pytest.fixture(scope="module")
def voices():
    return load_dataset("synthetic-voice", per_class=3)


def test_a_run_is_of_one_precision(able, voices, tmp_path):
    """Refused both ways; resumed to the same bits; opened again in its own precision."""
    exact, narrow = load_encoder("tiny"), load_encoder("tiny", precision="bf16")
    run = extract(narrow, voices, tmp_path / "run", ("head", "moments", "direct"), batch_size=4)
    assert run.info["precision"] == "bf16"
    with pytest.raises(StoreError, match=r"not mixed:\n  precision: bf16 → float32\nUse the same ones, or another --out"):
        extract(exact, voices, tmp_path / "run", ("head", "moments", "direct"), batch_size=4)
    shards = sorted((tmp_path / "run" / "shards").iterdir())
    before = {path.name: path.read_bytes() for path in shards}
    for path in shards[::2]:
        path.unlink()
    extract(narrow, voices, tmp_path / "run", ("head", "moments", "direct"), batch_size=4)
    assert {path.name: path.read_bytes() for path in shards} == before
    again = Run.open(tmp_path / "run").open_encoder()
    assert again.precision == "bf16"
    some = [c.source for c in voices.clips[:4]]
    assert torch.equal(torch.stack(again.embed_outcomes(some)), torch.stack(narrow.embed_outcomes(some)))


def test_a_run_that_does_not_say_is_float32(able, voices, tmp_path):
    exact, narrow = load_encoder("tiny"), load_encoder("tiny", precision="bf16")
    extract(exact, voices, tmp_path / "run", ("head",), batch_size=4)
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    assert info.pop("precision") == "float32"
    (tmp_path / "run" / "run.json").write_text(json.dumps(info))
    assert Run.open(tmp_path / "run").open_encoder().precision == "float32"
    with pytest.raises(StoreError, match="precision: float32 → bf16"):
        extract(narrow, voices, tmp_path / "run", ("head",), batch_size=4)
    next((tmp_path / "run" / "shards").iterdir()).unlink()
    assert extract(exact, voices, tmp_path / "run", ("head",), batch_size=4).complete


def test_results_say_their_precision(able, voices, tmp_path):
    """And an ablation does not go on with parts of another."""
    exact, narrow = load_encoder("tiny"), load_encoder("tiny", precision="bf16")
    assert [zero_shot(e, voices).info["precision"] for e in (exact, narrow)] == ["float32", "bf16"]
    found = {}
    for encoder in (exact, narrow):
        result = ablate(encoder, voices, "S3B1 heads mlps", clips=8, out=tmp_path / encoder.precision)
        assert result.info["precision"] == encoder.precision
        found[encoder.precision] = result
    assert abs(found["bf16"].ablated - found["float32"].ablated).max() < 0.05 * abs(found["float32"].ablated).max()
    with pytest.raises(StoreError, match="precision: float32 → bf16"):
        ablate(narrow, voices, "S3B1 heads mlps", clips=8, out=tmp_path / "float32")


def test_a_cpu_without_bf16_falls_back_and_says_so(unable, tmp_path):
    """auto is settled before a run begins and recorded as what it became; bf16 is refused; this process lives."""
    words = ["extract", "tiny", "synthetic-voice", "--limit", "6", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, [*words, "--precision", "auto"])
    assert done.exit_code == 0, done.output
    assert "float32: a trial of bf16 in a child process gave no answer" in done.output
    assert json.loads((tmp_path / "run" / "run.json").read_text())["precision"] == "float32"
    assert len(json.loads((tmp_path / "bf16.json").read_text())) == 1, "asked once, and kept"
    with pytest.raises(PrecisionError, match=r"no bf16 on .*; use --precision float32 or auto"):
        load_encoder("tiny", precision="bf16")


def test_auto_is_recorded_as_what_it_became(able, tmp_path, monkeypatch):
    monkeypatch.setattr(precision, "bf16_ratio", lambda: 0.5)
    words = ["extract", "tiny", "synthetic-voice", "--limit", "6", "--out", str(tmp_path / "run"), "--precision"]
    done = CliRunner().invoke(app, [*words, "auto"])
    assert done.exit_code == 0, done.output
    assert "bf16: a product in bf16 takes 0.50 of its time in float32" in done.output
    assert json.loads((tmp_path / "run" / "run.json").read_text())["precision"] == "bf16"
    assert CliRunner().invoke(app, [*words, "bf16"]).exit_code == 0, "the same run"
    refused = CliRunner().invoke(app, [*words, "float32"])
    assert refused.exit_code != 0


def test_a_machine_that_cannot_says_so_when_it_opens_a_run(able, voices, tmp_path, monkeypatch):
    run = extract(load_encoder("tiny", precision="bf16"), voices, tmp_path / "run", ("head",))
    monkeypatch.setattr(precision, "bf16_ratio", lambda: None)
    with pytest.raises(PrecisionError, match="no bf16 on"):
        run.open_encoder()
