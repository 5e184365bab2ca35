"""Every trained method has the same chances, and what is chosen is chosen on the stopping part alone."""

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open

from residual_audio.adaptation.methods import METHODS
from residual_audio.adaptation.prepare import prepare
from residual_audio.adaptation.recipe import Recipe
from residual_audio.adaptation.task import FoldTask
from residual_audio.adaptation.tuning import grid_of, judged, label_share, learn, trials
from residual_audio.comparison.compare import compare
from residual_audio.comparison.protocol import Protocol
from residual_audio.comparison.search import search
from residual_audio.data import load_dataset
from residual_audio.evaluation.folds import fold_parts
from residual_audio.models import load_encoder
from residual_audio.options import OptionError

RECIPE = Recipe(units="S3B1 heads", epochs=2, batch_size=32)


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("tiny")


@pytest.fixture(scope="module")
def data():
    return load_dataset("synthetic-timbre").limited(84)


@pytest.fixture(scope="module")
def task(encoder, data):
    setting = prepare(encoder, data, ["residual", "lora"], Recipe(units="S3B1 heads"))
    return FoldTask(setting, torch.from_numpy(setting.dataset.targets), next(fold_parts(setting.dataset))[1], 0)


def test_grids_have_equal_size():
    sizes = {name: int(np.prod([len(values) for values in grid_of(name).values()])) for name, m in METHODS.items() if m.trained}
    assert set(sizes.values()) == {3}, sizes
    assert all(len(grid_of(name)) == 1 for name in sizes)
    assert not any(grid_of(name) for name, m in METHODS.items() if not m.trained)


@pytest.mark.parametrize("method", ["head-scalar", "aligner"])
def test_the_best_on_the_stopping_part_is_kept(task, method):
    options = RECIPE.options(method)
    learned, chosen = learn(method, task, options, tune=True)
    tried = {next(iter(choice.values())): METHODS[method].run(task, point) for choice, point in trials(method, options)}
    best = max(tried, key=lambda value: judged(tried[value]))
    name = next(iter(grid_of(method)))
    assert chosen[name] == best
    assert torch.equal(learned.embed(task.setting), tried[best].embed(task.setting))
    test = task.parts.test
    other = task.targets.clone()
    other[test] = (other[test] + 5) % 12
    again = learn(method, FoldTask(task.setting, other, task.parts, 0), options, tune=True)
    assert again[1] == chosen, "the test labels took part in the choice"


def test_once_more_from_all_clips(task):
    """The same as training from the start on everything outside the test, for as many epochs as the parts chose."""
    options = RECIPE.changed(rate=0.5, epochs=6).options("residual")
    first, plain = learn("residual", task, options), learn("residual", task, options, again=True)
    assert plain[1]["epochs"] == max(first[0].history, key=lambda h: (h["stop_accuracy"], -h["stop_loss"]))["epoch"] > 0
    assert str(plain[0].history) == str(first[0].history), "the history is that of the parts"
    assert not torch.equal(plain[0].embed(task.setting), first[0].embed(task.setting))
    assert label_share("residual", task.parts, False) == pytest.approx(len(task.parts.train) / len(task.parts.seen))
    assert [label_share(m, task.parts, True) for m in ("plain", "probe", "residual", "fisher-gains")][:3] == [0.0, 1.0, 1.0]
    assert label_share("fisher-gains", task.parts, True) < 1, "it is not trained by the loop, so it does not learn again"


def test_a_tuned_comparison_says_what_it_chose_and_resumes(encoder, data, tmp_path):
    methods, protocol = ["plain", "head-scalar", "aligner"], Protocol(tune=True, again=True)
    first = compare(encoder, data, tmp_path, methods, RECIPE, protocol)
    chosen = first.cells.set_index("method").chosen
    assert chosen["head-scalar"].str.fullmatch(r"rate=[\d.]+, epochs=\d").all()
    assert chosen["aligner"].str.startswith("aligner_rate=").all()
    assert first.summary.set_index("method").labels.tolist() == [0.0, 1.0, 1.0]
    cells = sorted((tmp_path / "comparison" / "cells").iterdir())
    times = [p.stat().st_mtime_ns for p in cells]
    cells[0].unlink()
    again = compare(encoder, data, tmp_path, methods, RECIPE, protocol)
    assert [p.stat().st_mtime_ns for p in cells[1:]] == times[1:], "a finished cell was computed again"
    columns = ["method", "fold", "accuracy", "chosen"]
    assert again.cells[columns].equals(first.cells[columns])
    with safe_open(cells[0], "pt") as file:
        assert json.loads(file.metadata()["facts"])["labels"] in (0.0, 1.0)


def test_what_tuning_chooses_cannot_be_given_too(encoder, data, tmp_path):
    with pytest.raises(OptionError, match="--rate is chosen by --tune for residual"):
        compare(encoder, data, tmp_path, ["plain", "residual"], RECIPE.changed(rate=0.1), Protocol(tune=True))
    with pytest.raises(OptionError, match="leave out --tune"):
        search(encoder, data, tmp_path, "stages", protocol=Protocol(tune=True))
