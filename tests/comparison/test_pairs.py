"""Any classifier on any adapted encoder: one training for all of them, rows that are what they say, and nothing learned twice."""

import shutil
from dataclasses import replace
from statistics import harmonic_mean

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from residual_audio.adaptation.prepare import prepare
from residual_audio.adaptation.recipe import Recipe
from residual_audio.adaptation.task import Adaptation
from residual_audio.comparison import cells
from residual_audio.comparison.compare import compare
from residual_audio.comparison.elsewhere import Elsewhere
from residual_audio.comparison.protocol import Protocol
from residual_audio.comparison.rows import Row, rows_of
from residual_audio.comparison.search import search
from residual_audio.data import load_dataset
from residual_audio.evaluation import CLASSIFIERS, EvaluationError, Examples, zero_shot
from residual_audio.evaluation.directions import class_directions
from residual_audio.extraction import StoreError
from residual_audio.models import load_encoder
from residual_audio.options import OptionError

RECIPE = Recipe(units="S3B1 heads", epochs=1, rate=0.1)
METHODS = ["plain", "residual"]
PAIRS = Protocol(classifier="prompts,gda,kernel")


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("tiny")


@pytest.fixture(scope="module")
def data():
    """Four classes in three folds."""
    voice = load_dataset("synthetic-voice")
    few = voice.only(lambda c: c.label in voice.labels[:4], "four classes").limited(40)
    return replace(few, clips=tuple(replace(c, fold=i % 3 + 1) for i, c in enumerate(few.clips)))


@pytest.fixture(scope="module")
def run(encoder, data):
    """Comparisons that decode once."""
    setting = prepare(encoder, data, METHODS, RECIPE)
    return lambda out, methods=METHODS, protocol=PAIRS: compare(encoder, data, out, methods, RECIPE, protocol, ready=setting)


@pytest.fixture(scope="module")
def pairs(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("pairs")
    return out, run(out)


def stored(out):
    return {p.relative_to(out): load_file(p) for p in sorted((out / "comparison").rglob("*.safetensors"))}


def equal(one, two):
    assert one.keys() == two.keys()
    for name, tensors in one.items():
        for key, value in tensors.items():
            assert torch.equal(value, two[name][key]), (name, key)


def test_names_of_rows(encoder, whisper_dir):
    assert rows_of(["plain", "residual+lp++", "probe-shares"], "auto,gda,prompts", encoder) == [
        Row("plain", "plain", "prompts"),
        Row("plain+gda", "plain", "gda"),
        Row("residual+lp++", "residual", "lp++"),
        Row("probe-shares", "probe-shares", "own"),
    ]
    assert [row.name for row in rows_of(["plain+prompts", "plain"], "prompts,probe", encoder)] == ["plain", "plain+probe"]
    mute = load_encoder(whisper_dir, seconds=1.0)
    assert rows_of(["plain"], "auto,tip", mute) == [Row("plain", "plain", "centroids"), Row("plain+tip", "plain", "tip")]
    for methods, classifiers, on, says in (
        (["plain"], "prompts", mute, "no text side"),
        (["plain+zs-probe"], "auto", mute, "no text side"),
        (["plain"], "gdaa", encoder, "did you mean gda"),
        (["plain"], " , ", encoder, "none is named"),
        (["probe-shares+gda"], "auto", encoder, "leaves no encoder"),
        (["magic+gda"], "auto", encoder, "unknown method 'magic'"),
    ):
        with pytest.raises((EvaluationError, OptionError), match=says):
            rows_of(methods, classifiers, on)


def test_one_row_per_method_and_classifier(pairs):
    summary = pairs[1].summary
    names = ["plain", "plain+gda", "plain+kernel", "residual", "residual+gda", "residual+kernel"]
    assert summary.method.tolist() == names
    assert summary.adaptation.tolist() == ["plain"] * 3 + ["residual"] * 3
    assert summary.classifier.tolist() == ["prompts", "gda", "kernel"] * 2
    assert summary.labels.tolist()[:3] == [0.0, 1.0, 1.0]
    assert len(pairs[1].cells) == 6 * 3
    chosen = pairs[1].cells.set_index("method").chosen
    assert chosen["plain+gda"].str.startswith("alpha=").all()
    assert chosen["residual+gda"].str.match("epochs=[0-9]+, alpha=").all()
    paired = pairs[1].paired.set_index(["method", "against"])
    assert len(paired) == 6 * 5 / 2
    accuracy = summary.set_index("method").accuracy
    gained = paired.loc["residual+gda", "plain+gda"]
    assert gained.difference == pytest.approx(accuracy["residual+gda"] - accuracy["plain+gda"])
    assert gained.low <= gained.difference <= gained.high


def test_the_plain_rows_are_what_zero_shot_says(pairs, encoder, data):
    """Scores and accuracy, from another room that makes its folds by itself."""
    out, comparison = pairs
    expected = zero_shot(encoder, data, classifier="gda")
    for path in (out / "comparison" / "cells").glob("plain+gda-fold*"):
        cell = load_file(path)
        torch.testing.assert_close(cell["scores"], expected.scores[cell["test"]], rtol=1e-3, atol=1e-3)
    assert comparison.summary.set_index("method").accuracy["plain+gda"] == expected.outcome.correct.mean()


def test_adapted_rows_are_fitted_on_adapted_embeddings(pairs, encoder, data):
    """The classifier's scores once more, from the embeddings that the comparison kept."""
    out, _ = pairs
    kept = load_file(out / "comparison" / "embeddings" / "residual-fold1-repeat0.safetensors")["embeddings"]
    cell = load_file(out / "comparison" / "cells" / "residual+gda-fold1-repeat0.safetensors")
    rest = np.setdiff1d(np.arange(len(data)), cell["test"].numpy())
    texts = class_directions(encoder, data).cpu()
    unit = torch.nn.functional.normalize(kept[rest], dim=-1)
    groups = [data.groups[i] for i in rest]
    examples = Examples(unit, torch.from_numpy(data.targets[rest]), 4, groups, texts, encoder.logit_scale, 0)
    assert torch.equal(CLASSIFIERS["gda"].fit(examples).scores(kept[cell["test"]]).float(), cell["scores"])


def test_each_method_is_learned_once_and_nothing_again_for_one_more_classifier(run, tmp_path, monkeypatch):
    learned = []
    real = cells.learn
    monkeypatch.setattr(cells, "learn", lambda method, *rest: learned.append(method) or real(method, *rest))
    run(tmp_path, protocol=Protocol(classifier="prompts,centroids"))
    assert sorted(learned) == ["plain"] * 3 + ["residual"] * 3
    before = stored(tmp_path)
    times = {p: p.stat().st_mtime_ns for p in (tmp_path / "comparison").rglob("*.safetensors")}
    learned.clear()
    grown = run(tmp_path, [*METHODS, "plain+probe"], Protocol(classifier="prompts,centroids,tip"))
    assert learned == []
    assert {p: p.stat().st_mtime_ns for p in times} == times
    equal(before, {name: tensors for name, tensors in stored(tmp_path).items() if name in before})
    assert grown.summary.method.tolist()[2:4] + grown.summary.method.tolist()[-2:] == [
        "plain+tip",
        "residual",
        "residual+tip",
        "plain+probe",
    ]
    with pytest.raises(StoreError, match="classifier: prompts → gda"):
        run(tmp_path, protocol=Protocol(classifier="gda,prompts"))


def test_what_is_lost_is_made_again(pairs, run, tmp_path):
    """Killed between a training and its scores, or between the scores of two classifiers: the rest is the same, bit by bit."""
    out, whole = pairs
    shutil.copytree(out, tmp_path / "cut")
    folder = tmp_path / "cut" / "comparison"
    for path in (folder / "cells").glob("residual+*"):
        path.unlink()
    for path in (folder / "embeddings").glob("*-fold[12]-*"):
        path.unlink()
    for path in (folder / "cells").glob("plain*-fold2-*"):
        path.unlink()
    resumed = run(tmp_path / "cut")
    mine, theirs = stored(tmp_path / "cut"), stored(out)
    unneeded = {name for name in theirs if name not in mine}
    assert {name.name for name in unneeded} <= {"plain-fold1-repeat0.safetensors"}, "embeddings of finished cells are not needed"
    equal(mine, {name: tensors for name, tensors in theirs.items() if name not in unneeded})
    columns = ["method", "accuracy", "low", "high", "trained"]
    assert resumed.summary[columns].equals(whole.summary[columns])


def test_a_search_has_one_classifier(encoder, data, tmp_path):
    with pytest.raises(OptionError, match="a search has one"):
        search(encoder, data, tmp_path, "grid", RECIPE, PAIRS, settings=["rate=0.1,0.2"])


def test_every_pair_has_a_curve_of_strengths(run, tmp_path):
    """At nothing of what was learned it is the plain model, with the same classifier; at all of it the row itself."""
    found = run(tmp_path, protocol=Protocol(classifier="prompts,gda", strengths="0,1"))
    curve = found.tables["comparison_strength"].set_index(["method", "tau"]).accuracy
    accuracy = found.summary.set_index("method").accuracy
    assert set(curve.index) == {(name, tau) for name in ("residual", "residual+gda") for tau in (0.0, 1.0)}
    for name, plain in (("residual", "plain"), ("residual+gda", "plain+gda")):
        assert curve[name, 1.0] == pytest.approx(accuracy[name])
        assert curve[name, 0.0] == pytest.approx(accuracy[plain])


def test_base_and_novel_classes(encoder, data, tmp_path):
    """Of the plain model, zero-shot on either half of the classes says the same; gains change both, and the classifier only the base."""
    protocol = Protocol(classifier="prompts,gda", strengths="0")
    found = compare(encoder, data, tmp_path, METHODS, RECIPE.changed(rate=0.5), protocol, novel=True)
    summary = found.summary.set_index("method")
    base, novel = data.labels[:2], data.labels[2:]
    assert found.info["settings"]["novel"] == list(novel)
    for column, labels in (("accuracy", base), ("novel", novel)):
        half = data.only(lambda c, labels=labels: c.label in labels, "half")
        assert summary.loc["plain", column] == pytest.approx(zero_shot(encoder, half).outcome.correct.mean())
    for _, row in summary.iterrows():
        assert row.harmonic == pytest.approx(harmonic_mean([row.accuracy, row.novel]))
        assert row.novel_low <= row.novel <= row.novel_high
    assert summary.novel["residual"] == summary.novel["residual+gda"]
    curve = found.tables["comparison_strength"].set_index("method")
    assert curve.novel["residual"] == pytest.approx(summary.novel["plain"])
    assert found.cells.groupby("method").clips.sum().eq(sum(c.label in base for c in data.clips)).all()
    with pytest.raises(EvaluationError, match="at least two each"):
        compare(encoder, data.only(lambda c: c.label in base, "two"), tmp_path / "x", METHODS, RECIPE, novel=True)


def test_novel_clips_are_asked_in_their_own_fold(encoder, data):
    """Those of their group were not learned from there."""
    setting = prepare(encoder, data, ["plain"])
    right = Adaptation(0, embed=lambda s: s.directions[torch.from_numpy(s.dataset.targets)])
    folds = [c.fold for c in data.clips]
    asked = [Elsewhere(novel=setting).measured(right, fold) for fold in sorted(set(folds))]
    assert [len(one["novel_right"]) for one in asked] == [folds.count(fold) for fold in sorted(set(folds))]
    assert all(one["novel"] == 1.0 for one in asked)
