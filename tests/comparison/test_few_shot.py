"""A few-shot curve is a set of comparisons on the same tests, with N clips a class in all; it goes on where it stopped."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from residual_audio.adaptation.recipe import Recipe
from residual_audio.cli import app
from residual_audio.comparison.compare import compare
from residual_audio.comparison.few_shot import few_shot, parse_shots
from residual_audio.data import load_dataset
from residual_audio.evaluation import EvaluationError
from residual_audio.evaluation.folds import fold_parts
from residual_audio.models import load_encoder

RECIPE = Recipe(units="S3B1 heads", epochs=2, rate=0.1, batch_size=32)
SHOTS = [2, 5, None]
METHODS = ["plain", "plain+probe", "residual"]


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("tiny")


@pytest.fixture(scope="module")
def data():
    voice = load_dataset("synthetic-voice")
    return voice.only(lambda c: c.label in voice.labels[:3], "three classes").limited(30)


@pytest.fixture(scope="module")
def curve(encoder, data, tmp_path_factory):
    out = tmp_path_factory.mktemp("curve")
    return out, few_shot(encoder, data, out, METHODS, RECIPE, shots=SHOTS)


def test_shots_are_read():
    assert parse_shots("8, 1,all,2,2") == [1, 2, 8, None]
    for wrong in ("0", "-1", "1.5", "many", ""):
        with pytest.raises(EvaluationError, match="shots"):
            parse_shots(wrong)


def test_each_point_is_a_comparison(curve, encoder, data, tmp_path):
    out, found = curve
    assert sorted(p.name for p in out.iterdir()) == ["shots-2", "shots-5", "shots-all"]
    assert list(found.curve.shots.unique()) == ["2", "5", "all"]
    assert list(found.curve.method) == METHODS * 3
    alone = compare(encoder, data, tmp_path, ["residual"], RECIPE, shots=5).summary.iloc[0]
    mine = found.curve[(found.curve.method == "residual") & (found.curve.shots == "5")].iloc[0]
    for column in ("accuracy", "std", "low", "high", "trained"):
        assert mine[column] == alone[column]


def test_all_points_share_their_tests(curve):
    """The plain model learns nothing, so its points are the same number."""
    plain = curve[1].curve.query("method == 'plain'")
    assert plain.accuracy.nunique() == 1
    assert (plain.trained == 0).all()


def test_the_table_says_how_many_clips_were_used(curve, data):
    """Counted once more, class by class."""
    table = curve[1].curve.drop_duplicates("shots").set_index("shots")
    targets = data.targets
    for name, shots in zip(("2", "5", "all"), SHOTS, strict=True):
        counted = [np.bincount(targets[p.train], minlength=3) for _, p in fold_parts(data, 0, shots)]
        assert table.train[name] == pytest.approx(np.mean(counted))
        assert table.seen[name] > table.train[name]
        if shots is not None:
            everything = [np.unique(np.concatenate([p.basis, p.train, p.stop])) for _, p in fold_parts(data, 0, shots)]
            assert {tuple(np.bincount(targets[rows], minlength=3)) for rows in everything} == {(shots,) * 3}, "N clips a class in all"
            assert table.seen[name] == shots
    assert table.train.is_monotonic_increasing
    assert table.seen["all"] == pytest.approx(len(data) * 0.8 / 3)


def test_the_command_leaves_table_and_figure_and_goes_on(data, tmp_path):
    clips = tmp_path / "clips.csv"
    pd.DataFrame([{"path": c.path, "label": c.label, "fold": c.fold} for c in data.clips]).to_csv(clips, index=False)
    tmp_path = tmp_path / "out"
    words = ["few-shot", "tiny", str(clips), "--units", "S3B1 heads", "--epochs", "1", "--methods", "plain,residual",
             "--shots", "3,all", "--out", str(tmp_path)]  # fmt: skip
    first = CliRunner().invoke(app, words)
    assert first.exit_code == 0, first.output
    times = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.safetensors")}
    assert len(times) == 2 * 2 * 5 * 2, "scores and embeddings of every method, point and fold"
    table = pd.read_csv(tmp_path / "tables" / "few_shot.csv", dtype={"shots": str})
    assert {"method", "shots", "accuracy", "std", "low", "high", "trained"} <= set(table)
    assert sorted(p.name for p in (tmp_path / "figures").iterdir()) == ["few_shot_curve.pdf", "few_shot_curve.png"]
    assert "in all" in json.loads((tmp_path / "few_shot.json").read_text())["note"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.safetensors")} == times
    pd.testing.assert_frame_equal(table, pd.read_csv(tmp_path / "tables" / "few_shot.csv", dtype={"shots": str}))
