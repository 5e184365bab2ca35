"""The comparison is honest (no leakage, disjoint parts), resumes cell by cell, and ends in a folded checkpoint."""

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from sklearn.neighbors import NearestCentroid
from transformers import ClapModel
from typer.testing import CliRunner

from residual_audio.adaptation.adapt import adapt
from residual_audio.adaptation.adapter import load_adapter
from residual_audio.adaptation.attach import attached
from residual_audio.adaptation.fold import fold
from residual_audio.adaptation.recipe import Recipe
from residual_audio.adaptation.tuning import Learning
from residual_audio.cli import app
from residual_audio.comparison.compare import compare
from residual_audio.comparison.protocol import Protocol
from residual_audio.data import load_dataset
from residual_audio.evaluation import EvaluationError, zero_shot
from residual_audio.evaluation.classifiers import prompt_directions
from residual_audio.evaluation.folds import fold_parts, inner_parts, with_folds
from residual_audio.extraction import StoreError
from residual_audio.models import load_encoder
from residual_audio.options import OptionError
from tests.helpers.gains import made_up

COMMAND = str(Path(sys.executable).with_name("residual-audio"))

RECIPE = Recipe(units="S3B1 heads", epochs=3, rate=0.1, batch_size=32)


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("tiny")


@pytest.fixture(scope="module")
def data():
    return load_dataset("synthetic-timbre").limited(120)


def test_parts_are_disjoint_and_whole(data):
    folded = with_folds(data, "official")
    tested = []
    for _, parts in fold_parts(folded):
        together = np.concatenate([parts.basis, parts.train, parts.stop, parts.test])
        assert sorted(together.tolist()) == list(range(len(data)))
        assert min(len(parts.basis), len(parts.train), len(parts.stop), len(parts.test)) > 0
        tested += parts.test.tolist()
    assert sorted(tested) == list(range(len(data)))


@pytest.mark.parametrize(("shots", "learned", "judged"), [(1, 1, 0), (2, 1, 1), (4, 3, 1), (8, 6, 2)])
def test_few_shots_are_few_for_everyone(data, shots, learned, judged):
    folded = with_folds(data, "official")
    few = next(fold_parts(folded, shots=shots))[1]
    for part, count in ((few.train, learned), (few.stop, judged), (few.seen, shots), (few.basis, shots)):
        assert np.bincount(folded.targets[part], minlength=12).tolist() == [count] * 12
    assert not set(few.train) & set(few.stop)
    assert not set(few.seen) & set(few.test)


def test_interrupted_comparisons_go_on(tmp_path):
    """A real process, killed after its first cells; the same command finishes, with the same scores as an uninterrupted one."""

    def words(out):
        return ["compare", "tiny", "synthetic-voice", "--limit", "48", "--units", "S3B1 heads", "--epochs", "1",
                "--methods", "plain,residual,aligner", "--classifier", "prompts,gda", "--out", str(out)]  # fmt: skip

    process = subprocess.Popen([COMMAND, *words(tmp_path / "a")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    cells = tmp_path / "a" / "comparison" / "cells"
    deadline = time.monotonic() + 120
    while (not cells.exists() or len(list(cells.glob("[!.]*"))) < 3) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()
    kept = {p.name: p.stat().st_mtime_ns for p in cells.glob("[!.]*")}
    assert 3 <= len(kept) < 30
    for out in (tmp_path / "a", tmp_path / "b"):
        finished = CliRunner().invoke(app, words(out))
        assert finished.exit_code == 0, finished.output
    for path in (tmp_path / "b" / "comparison" / "cells").iterdir():
        ours = cells / path.name
        assert torch.equal(load_file(ours)["scores"], load_file(path)["scores"]), path.name
        if path.name in kept:
            assert ours.stat().st_mtime_ns == kept[path.name], "a finished cell was computed again"


def test_another_recipe_is_not_mixed_in(encoder, data, tmp_path):
    """Cells of a method are made with the same options; what other methods were given does not matter to it."""
    small = data.limited(60)
    first = compare(encoder, small, tmp_path, ["plain", "scalar"], RECIPE)
    times = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "comparison" / "cells").iterdir()}
    with pytest.raises(StoreError, match=r"scalar made with other options.*\n  rate: 0.1 → 0.2"):
        compare(encoder, small, tmp_path, ["plain", "scalar"], RECIPE.changed(rate=0.2))
    with pytest.raises(StoreError, match="seed: 0 → 1"):
        compare(encoder, small, tmp_path, ["plain"], protocol=Protocol(seed=1))
    grown = compare(encoder, small, tmp_path, ["plain", "scalar", "aligner"], RECIPE.changed(aligner_rate=0.01))
    assert grown.cells[grown.cells.method != "aligner"].reset_index(drop=True).equals(first.cells)
    assert {n: p.stat().st_mtime_ns for n in times if (p := tmp_path / "comparison" / "cells" / n)} == times
    with pytest.raises(OptionError, match="unknown method 'magic'"):
        compare(encoder, small, tmp_path / "x", ["magic"])
    with pytest.raises(EvaluationError, match="no method is named"):
        compare(encoder, small, tmp_path / "x", [])
    assert not (tmp_path / "x").exists(), "a comparison that cannot begin claims its folder"


def test_cells_of_a_version_that_knew_fewer_options_are_not_mixed_in(encoder, data, tmp_path):
    """What an option does by default now may not have been done then."""
    small = data.limited(60)
    compare(encoder, small, tmp_path, ["plain", "scalar"], RECIPE)
    for path in (tmp_path / "comparison" / "cells").glob("scalar-*"):
        with safe_open(path, "pt") as file:
            said, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        options = json.loads(said["options"])
        del options["wide_kept"]
        save_file(tensors, path, {**said, "options": json.dumps(options)})
    with pytest.raises(StoreError, match=r"scalar made with other options.*\n  wide_kept: unknown then → None"):
        compare(encoder, small, tmp_path, ["plain", "scalar"], RECIPE)


def test_adapting_and_another_dataset(encoder, data, tmp_path):
    """What adapting costs elsewhere is the zero-shot accuracy there: of the plain model what `zero-shot` says, of gains another figure."""
    other = load_dataset("synthetic-voice").limited(48)
    comparison = compare(encoder, data.limited(60), tmp_path, ["plain", "gains"], RECIPE.changed(rate=0.5), other=other)
    elsewhere = comparison.summary.set_index("method").other
    assert elsewhere["plain"] == pytest.approx(zero_shot(encoder, other).outcome.correct.mean())
    assert elsewhere["gains"] != elsewhere["plain"]
    paired = comparison.tables["comparison_elsewhere"].set_index(["method", "against"]).loc[("gains", "plain")]
    assert paired.difference == pytest.approx(elsewhere["gains"] - elsewhere["plain"])
    # As many resamples of the clips (each is a group of its own), drawn by numpy.
    folds = comparison.cells.fold.nunique()
    rights = [np.zeros(len(other)) for _ in range(2)]
    for name in (tmp_path / "comparison" / "cells").glob("*.safetensors"):
        facts, (method, *_) = (json.loads(safe_open(name, "pt").metadata()[key]) for key in ("facts", "cell"))
        rights[method == "gains"] += np.array(facts["other_right"]) / folds
    drawn = np.random.default_rng(1).integers(len(other), size=(4000, len(other)))
    low, high = np.quantile((rights[1] - rights[0])[drawn].mean(1), [0.025, 0.975])
    assert (paired.low, paired.high) == (pytest.approx(low, abs=0.02), pytest.approx(high, abs=0.02))
    # A cell of an earlier version does not say which clips were right: its method is not paired with others.
    cell = next((tmp_path / "comparison" / "cells").glob("gains-*"))
    with safe_open(cell, "pt") as file:
        said, tensors = file.metadata(), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    facts = {key: value for key, value in json.loads(said["facts"]).items() if key != "other_right"}
    save_file(tensors, cell, {**said, "facts": json.dumps(facts)})
    again = compare(encoder, data.limited(60), tmp_path, ["plain", "gains"], RECIPE.changed(rate=0.5), other=other)
    assert "comparison_elsewhere" not in again.tables
    pd.testing.assert_series_equal(again.summary.set_index("method").other, elsewhere)
    assert list(comparison.summary.trained) == [0, 32 * encoder.units.d_head[3]]
    costs = comparison.cells.groupby("method").seconds.sum()
    assert costs["gains"] > costs["plain"] > 0
    assert comparison.cells.peak_mb.gt(50).all(), "a process with torch in it has more than that"


def test_elsewhere_without_texts_is_told_by_centroids(whisper_dir, tmp_path):
    """Of the plain model, what scikit-learn's nearest centroid says of the other folds; of gains another figure."""
    encoder, other = load_encoder(whisper_dir, seconds=2), with_folds(load_dataset("synthetic-voice").limited(64), "official")
    comparison = compare(
        encoder, load_dataset("synthetic-timbre").limited(60), tmp_path, ["plain", "gains"],
        RECIPE.changed(units="last heads", rate=0.5), other=other,
    )  # fmt: skip
    found = encoder.embed([c.source for c in other.clips]).double().numpy()
    unit, folds, right = found / np.linalg.norm(found, axis=1, keepdims=True), np.array([c.fold for c in other.clips]), 0
    for fold_number in np.unique(folds):
        train, test = folds != fold_number, folds == fold_number
        about = unit - unit[train].mean(0)
        about = about / np.linalg.norm(about, axis=1, keepdims=True)
        means = NearestCentroid().fit(about[train], other.targets[train]).centroids_
        # On the unit sphere the nearest direction is the one with the largest cosine.
        said = (about[test] @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T).argmax(1)
        right += (said == other.targets[test]).sum()
    elsewhere = comparison.summary.set_index("method").other
    assert elsewhere["plain"] == pytest.approx(right / len(other))
    assert elsewhere["gains"] != elsewhere["plain"]


def test_too_few_clips_are_told(encoder, tmp_path):
    """One clip per class is of one fold, two are of two folds."""
    first = load_dataset("synthetic-timbre")
    with pytest.raises(EvaluationError, match="single fold"):
        compare(encoder, first.limited(12, "first"), tmp_path / "a", ["plain"])
    with pytest.raises(EvaluationError, match="too few"):
        compare(encoder, first.limited(24, "first"), tmp_path / "b", ["plain"])


def test_from_adapting_to_a_plain_checkpoint(tmp_path):
    """adapt, fold, zero-shot: the folded directory loads without this package and says what the attached model says."""

    def run(*words):
        return subprocess.run([COMMAND, *words], capture_output=True, text=True, check=True).stdout

    said = run("adapt", "tiny", "synthetic-timbre", "--limit", "72", "--units", "S3B1 heads", "--form", "gains", "--epochs", "2",
               "--rate", "0.1", "--out", str(tmp_path / "adapter"))  # fmt: skip
    assert "256 numbers" in said
    said = run("fold", "tiny", str(tmp_path / "adapter"), "--out", str(tmp_path / "folded"))
    assert "model.safetensors" in said
    ClapModel.from_pretrained(tmp_path / "folded")
    encoder, folded = load_encoder("tiny"), load_encoder(tmp_path / "folded")
    sound = load_dataset("synthetic-timbre").limited(12).clips[3].source
    with attached(encoder, load_adapter(tmp_path / "adapter", encoder)):
        live = encoder.embed([sound])
    assert (folded.embed([sound]) - live).abs().max() < 1e-5
    assert (encoder.embed([sound]) - live).abs().max() > 1e-4
    assert torch.allclose(folded.embed_text(["a bell"]), encoder.embed_text(["a bell"]))


def test_microsofts_layout_is_written_as_it_was(msclap_path, tmp_path, sound_files):
    encoder = load_encoder(msclap_path)
    folded = fold(encoder, made_up(encoder, "heads mlps embedding", "drop"))
    written = folded.save(tmp_path)
    before, after = (torch.load(p, weights_only=True)["model"] for p in (msclap_path, written))
    assert {k: v.shape for k, v in before.items()} == {k: v.shape for k, v in after.items()}
    again = load_encoder(written)
    assert (again.embed(sound_files[:2]) - folded.embed(sound_files[:2])).abs().max() < 1e-5


def test_adapt_in_python(encoder, data, tmp_path):
    """The accuracies it reports are those of the plain and of the adapted model on the stopping part, computed once more here."""
    small = data.limited(60)
    adapted = adapt(encoder, small, RECIPE, Learning(again=False))
    stop = inner_parts(small, np.arange(60), np.arange(0), 0).stop
    texts = prompt_directions(encoder, [small.names[x] for x in small.labels], ["this is the sound of {}"])
    sources, targets = [small.clips[i].source for i in stop], torch.from_numpy(small.targets[stop])

    def accuracy() -> float:
        return float((encoder.embed(sources) @ texts.T).argmax(1).eq(targets).float().mean())

    assert adapted.before == pytest.approx(accuracy())
    with attached(encoder, adapted.residual):
        assert adapted.after == pytest.approx(accuracy())
    assert adapted.residual.notes["dataset"] == "synthetic-timbre"
    folder = adapted.write(tmp_path / "adapter")
    assert json.loads((folder / "training.json").read_text())["settings"]["options"]["units"] == "S3B1 heads"
    table = pd.read_parquet(folder / "tables" / "training.parquet")
    assert table.epoch.tolist() == [h["epoch"] for h in adapted.history]
    assert table.stop_accuracy[table.kept].tolist() == [pytest.approx(adapted.after)]


def test_a_killed_training_leaves_nothing_half_written(tmp_path):
    """On a terminal, so that the epochs show; killed after the second one."""
    screen, end = pty.openpty()
    words = ["adapt", "tiny", "synthetic-timbre", "--limit", "60", "--units", "S3B1 heads", "--epochs", "400", "--patience", "400"]
    process = subprocess.Popen([COMMAND, *words, "--out", str(tmp_path / "adapter")], stdout=subprocess.DEVNULL, stderr=end)
    os.close(end)
    seen = b""
    while b"epoch 2:" not in seen:
        seen += os.read(screen, 1024)
    process.kill()
    process.wait()
    os.close(screen)
    assert b"stopping accuracy" in seen
    assert list(tmp_path.iterdir()) == []
