"""A search chooses by the stopping part alone, goes on after a kill, and says what its choice is worth."""

import json
import subprocess
import sys
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from typer.testing import CliRunner

from residual_audio.adaptation.recipe import Recipe
from residual_audio.cli import app
from residual_audio.comparison.protocol import Protocol
from residual_audio.comparison.search import nested_accuracy, order, search
from residual_audio.comparison.space import Range, grid_trials, parse_space, stage_trials
from residual_audio.data import load_dataset
from residual_audio.evaluation import EvaluationError
from residual_audio.evaluation.folds import fold_parts
from residual_audio.extraction import StoreError
from residual_audio.models import load_encoder
from residual_audio.options import OptionError
from residual_audio.units import UnitTable

COMMAND = str(Path(sys.executable).with_name("residual-audio"))
HTSAT = UnitTable(heads=((4, 4), (8, 8), (16,) * 6, (32, 32)), d_head=(24,) * 4, d_model=(96, 192, 384, 768))
RECIPE = Recipe(units="S3B1 heads", epochs=2, rate=0.1, batch_size=32)


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("tiny")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Three classes, eighteen clips: a trial takes a second."""
    path = tmp_path_factory.mktemp("data") / "voice.csv"
    voice = load_dataset("synthetic-voice")
    clips = voice.only(lambda c: c.label in voice.labels[:3], "three classes").limited(18).clips
    pd.DataFrame([{"path": c.path, "label": c.label, "fold": c.fold} for c in clips]).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def data(table):
    return load_dataset(str(table))


@pytest.fixture(scope="module")
def found(encoder, data, tmp_path_factory):
    out = tmp_path_factory.mktemp("search")
    return out, search(encoder, data, out, "grid", RECIPE, settings=["rate=0.001,0.5", "mean=keep,drop"])


def cells(folder):
    """Straight from the files: history and test outcome of every fold."""
    for path in sorted((folder / "comparison" / "cells").glob("residual-*.safetensors")):
        with safe_open(path, "pt") as file:
            yield (
                json.loads(file.metadata()["cell"])[1],
                json.loads(file.metadata()["history"]),
                file.get_tensor("scores"),
                file.get_tensor("test"),
            )


def test_every_subset_of_the_stages_once():
    trials = stage_trials(HTSAT, RECIPE)
    expected = {frozenset(g) for k in range(1, 5) for g in combinations(range(4), k)}
    assert len(trials) == 15
    assert {frozenset(int(w[1]) for w in t.recipe["units"].split() if w != "heads") for t in trials} == expected
    assert len({t.name for t in trials}) == 15
    assert all({**t.recipe, "units": ""} == {**RECIPE, "units": ""} for t in trials)
    assert stage_trials(HTSAT, RECIPE, "mlps")[4].recipe["units"] == "S0 S1 mlps"


def test_subsets_of_blocks_where_there_is_one_stage():
    three = UnitTable(heads=((4, 4, 4),), d_head=(8,), d_model=(32,))
    trials = stage_trials(three, RECIPE)
    assert [t.name for t in trials] == ["S0B0", "S0B1", "S0B2", "S0B0+S0B1", "S0B0+S0B2", "S0B1+S0B2", "S0B0+S0B1+S0B2"]
    with pytest.raises(EvaluationError, match="not stages"):
        stage_trials(three, RECIPE, "stages")
    with pytest.raises(EvaluationError, match=r"one stage of 12 blocks, which make 4095 subsets.*--space grid"):
        stage_trials(UnitTable(heads=((6,) * 12,), d_head=(64,), d_model=(384,)), RECIPE)
    with pytest.raises(EvaluationError, match="unknown kind"):
        stage_trials(HTSAT, RECIPE, "layers")


def test_values_are_read_by_the_fields_own_types():
    given = ["rate=1e-3:1:log", "kept=4:16", "decay=0,1e-3", "optimiser=adam,adamw", "units=S3 heads,S2 S3 heads", "start=none,0.95"]
    assert parse_space(given) == {
        "rate": Range(0.001, 1.0, True),
        "kept": Range(4, 16, whole=True),
        "decay": [0.0, 1e-3],
        "optimiser": ["adam", "adamw"],
        "units": ["S3 heads", "S2 S3 heads"],
        "start": [None, 0.95],
    }
    assert parse_space(["kept=8,0.99", "rate=0,1"]) == {"kept": [8, 0.99], "rate": [0.0, 1.0]}
    assert parse_space(["lora-rank=2,8"], "lora") == {"lora_rank": [2, 8]}
    assert RECIPE.changed(rate=1.0, mean="drop") == {**RECIPE, "rate": 1.0, "mean": "drop"}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("rate", "expected KEY=VALUE"),
        ("rate=", "expected KEY=VALUE"),
        ("speed=1", "'speed' cannot vary; one of"),
        ("epochs=2.5", "int expected"),
        ("optimiser=sgd", "one of adamw"),
        ("lora_rank=2", "cannot vary"),
        ("rate=1:0.1", "LOW < HIGH"),
        ("decay=0:1:log", "LOW < HIGH"),
        ("mean=keep:drop", "only numbers"),
        ("rate=nan,1", "not a value"),
    ],
)
def test_what_cannot_be_searched_is_told(setting, message):
    with pytest.raises((EvaluationError, OptionError), match=message):
        parse_space([setting])


def test_a_grid_is_the_whole_product():
    trials = grid_trials(RECIPE, {"rate": [0.1, 1.0], "mean": ["keep", "drop"]})
    assert [t.name for t in trials] == ["rate=0.1,mean=keep", "rate=0.1,mean=drop", "rate=1.0,mean=keep", "rate=1.0,mean=drop"]
    with pytest.raises(OptionError, match="unknown mean"):
        parse_space(["mean=kept"])


def test_the_constants_of_a_preset_are_searched_without_the_test(encoder, data, tmp_path):
    """It trains nothing: what orders the trials is how the stopping part is classified, from the kept embeddings."""
    settings = ["leading=1", "blocks=0-1,2"]
    result = search(encoder, data, tmp_path, "grid", Recipe(), settings=settings, method="prune-early")
    assert len(result.table) == 2
    assert (result.table.trained == 0).all()
    prompts = [f"this is the sound of {data.names[label]}" for label in data.labels]
    texts = torch.nn.functional.normalize(encoder.embed_text(prompts), dim=-1)
    for tried in result.tried:
        folder = tmp_path / "trials" / tried.trial.name / "comparison" / "embeddings"
        for fold, parts in fold_parts(data):
            with safe_open(folder / f"prune-early-fold{fold}-repeat0.safetensors", "pt") as file:
                kept = file.get_tensor("embeddings")
            every = torch.zeros(len(data), kept.shape[1])
            every[np.union1d(parts.seen, parts.test)] = kept
            answers = (every[parts.stop] @ texts.T).argmax(1).numpy()
            assert tried.stopping[fold, 0] == pytest.approx((answers == data.targets[parts.stop]).mean())


def test_trials_are_ranked_by_the_stopping_part_alone(found):
    """The score is recomputed from the files; the test accuracy stands beside it and orders nothing."""
    out, result = found
    assert list(result.table.stop_accuracy) == sorted(result.table.stop_accuracy, reverse=True)
    for row in result.table.itertuples():
        best = [max(h["stop_accuracy"] for h in history) for _, history, _, _ in cells(out / "trials" / row.trial)]
        assert len(best) == 5
        assert row.stop_accuracy == pytest.approx(np.mean(best))
    assert result.best.trial.name == result.table.trial.iloc[0]
    assert {"rate", "mean", "trained", "accuracy", "std", "low", "high", "plain"} <= set(result.table)


def test_other_test_outcomes_choose_the_same(found):
    """All test outcomes turned round: the ranking and every fold's pick stay."""
    _, result = found
    turned = []
    for t in result.tried:
        wrong = {cell: (test, ~right) for cell, (test, right) in t.correct.items()}
        turned.append(type(t)(t.trial, t.comparison, t.stopping, wrong))
    assert [t.trial.name for t in order(turned[::-1])] == list(result.table.trial)
    interval, _, picks = nested_accuracy(order(turned), [str(i) for i in range(18)])
    assert list(picks.trial) == list(result.picks.trial)
    assert interval.value == pytest.approx(1 - result.nested.value)


def test_nested_accuracy_by_hand(found, data):
    """Fold by fold from the files: the trial that was best on that fold's own stopping part."""
    out, result = found
    by_fold = {}
    for row in result.table.itertuples():
        for fold, history, scores, test in cells(out / "trials" / row.trial):
            right = scores.argmax(1).numpy() == data.targets[test.numpy()]
            key = (-max(h["stop_accuracy"] for h in history), row.trained, row.trial)
            by_fold.setdefault(fold, []).append((key, right.mean(), len(right)))
    expected, clips = zip(*(min(rows)[1:] for _, rows in sorted(by_fold.items())), strict=True)
    np.testing.assert_allclose(result.picks.accuracy, expected)
    assert result.nested.value == pytest.approx(np.average(expected, weights=clips))
    assert result.nested.low <= result.nested.value <= result.nested.high


def test_a_grid_may_grow_but_nothing_else_may_change(encoder, data, found):
    out, result = found
    times = {p: p.stat().st_mtime_ns for p in out.rglob("*.safetensors")}
    again = search(encoder, data, out, "grid", RECIPE, settings=["rate=0.001,0.5", "mean=keep"])
    assert len(again.table) == 2
    kept = result.table[result.table["mean"] == "keep"].reset_index(drop=True)
    pd.testing.assert_frame_equal(again.table, kept)
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*.safetensors")} == times, "a finished cell was computed again"
    with pytest.raises(StoreError, match="begun with other settings"):
        search(encoder, data, out, "grid", Recipe(units="S3 heads"), settings=["rate=0.1"])


class Stop(Exception):
    pass


def test_draws_go_on_as_if_nothing_had_happened(encoder, data, tmp_path):
    """Stopped in the middle of the second trial; afterwards the same draws, the same scores."""
    settings = ["rate=1e-3:1:log", "kept=2:8", "mean=keep,drop"]
    seen = []

    def stop(line):
        seen.append(line)
        if len(seen) == 14:
            raise Stop

    def run(out, **more):
        return search(encoder, data, out, "optuna", RECIPE, Protocol(seed=5), settings=settings, trials=2, **more)

    with pytest.raises(Stop):
        run(tmp_path / "a", tell=stop)
    assert len(list((tmp_path / "a" / "trials").iterdir())) == 2
    resumed, whole = run(tmp_path / "a"), run(tmp_path / "b")
    pd.testing.assert_frame_equal(resumed.table, whole.table)
    assert set(resumed.table.trial) == {"trial-0000", "trial-0001"}
    assert resumed.table.rate.between(1e-3, 1).all()
    assert resumed.table.kept.between(2, 8).all()
    assert resumed.table.rate.nunique() == 2
    with pytest.raises(StoreError, match="ranges"):
        search(encoder, data, tmp_path / "a", "optuna", RECIPE, Protocol(seed=5), settings=["rate=1e-3:2:log"], trials=2)


def test_questions_without_an_answer(encoder, data, tmp_path):
    for words, message in (
        (dict(space="random"), "unknown space"),
        (dict(space="stages", settings=["rate=1"]), "take no --set"),
        (dict(space="grid"), "nothing varies"),
        (dict(space="stages"), "--units is what --space stages varies"),
        (dict(space="grid", settings=["rate=1"], kind="mlps"), "--kind is read by --space stages"),
        (dict(space="grid", settings=["rate=1"], trials=3), "--trials is read by --space optuna"),
        (dict(space="grid", settings=["rate=0.1:1"]), "a grid takes lists"),
        (dict(space="grid", settings=["rate=1"], method="plain"), "plain has no options"),
        (dict(space="grid", settings=["units=S3"], method="probe-shares"), "leaves no stopping part"),
    ):
        with pytest.raises((EvaluationError, OptionError), match=message):
            search(encoder, data, tmp_path / message.split()[0], recipe=RECIPE, **words)


def test_a_killed_search_goes_on(table, tmp_path):
    """A real process, killed inside a trial; the same command finishes and computes no finished cell again."""

    def words(out):
        return ["search", "tiny", str(table), "--space", "grid", "--units", "S3B1 heads", "--epochs", "5", "--patience", "5",
                "--set", "rate=0.02,0.2", "--out", str(out)]  # fmt: skip

    process = subprocess.Popen([COMMAND, *words(tmp_path / "a")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def done():
        return {p: p.stat().st_mtime_ns for p in (tmp_path / "a").glob("trials/*/comparison/cells/[!.]*")}

    deadline = time.monotonic() + 120
    while len(done()) < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()
    kept = done()
    assert 3 <= len(kept) < 20
    tables = []
    for out in (tmp_path / "a", tmp_path / "b"):
        finished = CliRunner().invoke(app, words(out))
        assert finished.exit_code == 0, finished.output
        assert "nested" in finished.output
        tables.append(pd.read_parquet(out / "tables" / "search.parquet"))
    pd.testing.assert_frame_equal(*tables)
    assert {p: t for p, t in done().items() if p in kept} == kept
    record = json.loads((tmp_path / "a" / "search.json").read_text())
    assert record["best"]["trial"] == tables[0].trial[0]
    assert not (tmp_path / "a" / "figures").exists(), "a grid has no subsets to draw"
