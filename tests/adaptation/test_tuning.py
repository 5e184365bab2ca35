"""Every trained method has the same chances, and what is chosen is chosen on the stopping part alone."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open

from residual_audio.adaptation.learner import GainLearner
from residual_audio.adaptation.methods import METHODS
from residual_audio.adaptation.prepare import prepare
from residual_audio.adaptation.recipe import Recipe
from residual_audio.adaptation.task import FoldTask
from residual_audio.adaptation.tuning import STRENGTHS, Learning, grid_of, judged, label_share, learn, trials
from residual_audio.cli.screen import unreadable
from residual_audio.comparison.compare import compare
from residual_audio.comparison.protocol import Protocol
from residual_audio.comparison.search import search
from residual_audio.data import load_dataset
from residual_audio.evaluation.folds import fold_parts
from residual_audio.models import load_encoder
from residual_audio.options import OptionError, option_specs

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
    sizes = {name: [len(values) for values in grid_of(name).values()] for name, m in METHODS.items() if m.trained}
    assert all(size == [3, 2] for size in sizes.values()), sizes
    assert all(list(grid_of(name))[1] == "decay" for name in sizes)
    assert not any(grid_of(name) for name, m in METHODS.items() if not m.trained)


@pytest.mark.parametrize("method", ["scalar", "aligner"])
def test_the_best_on_the_stopping_part_is_kept(task, method):
    options, how = RECIPE.options(method), Learning(tune=True, again=False)
    learned, chosen = learn(method, task, options, how)
    for name, values in grid_of(method).items():  # the rate first, then the decay at that rate
        tried = {point: METHODS[method].run(task, point) for point in trials(name, values, options)}
        options = max(tried, key=lambda point: judged(tried[point]))
        assert chosen[name] == getattr(options, name)
    assert torch.equal(learned.embed(task.setting), tried[options].embed(task.setting))
    test = task.parts.test
    other = task.targets.clone()
    other[test] = (other[test] + 5) % 12
    again = learn(method, FoldTask(task.setting, other, task.parts, 0), RECIPE.options(method), how)
    assert again[1] == chosen, "the test labels took part in the choice"


def test_short_trials_choose_what_is_then_learned_to_its_end(task):
    assert all("epochs" in option_specs(m.options) for m in METHODS.values() if m.trained)
    options = RECIPE.changed(epochs=5).options("scalar")
    _, one = learn("scalar", task, replace(options, epochs=1), Learning(tune=True, again=False))
    learned, chosen = learn("scalar", task, options, Learning(tune=True, again=False, trial_epochs=1))
    assert [chosen[name] for name in grid_of("scalar")] == [one[name] for name in grid_of("scalar")]
    longer = METHODS["scalar"].run(task, replace(options, **{name: chosen[name] for name in grid_of("scalar")}))
    assert len(learned.history) == len(longer.history) > 2
    assert torch.equal(learned.embed(task.setting), longer.embed(task.setting))
    with pytest.raises(OptionError, match="--trial-epochs"):
        Learning(trial_epochs=3)
    whole = learn("scalar", task, options, Learning(tune=True, again=False))[1]
    assert learn("scalar", task, options, Learning(tune=True, again=False, trial_epochs=9))[1] == whole


def test_once_more_from_all_clips(task):
    """The same as training from the start on everything outside the test, for as many epochs as the parts chose."""
    options = RECIPE.changed(form="gains", rate=0.5, epochs=6).options("residual")
    first, plain = learn("residual", task, options, Learning(again=False)), learn("residual", task, options)
    assert plain[1]["epochs"] == max(first[0].history, key=lambda h: (h["stop_accuracy"], -h["stop_loss"]))["epoch"] > 0
    assert str(plain[0].history) == str(first[0].history), "the history is that of the parts"
    assert not torch.equal(plain[0].embed(task.setting), first[0].embed(task.setting))
    assert label_share("residual", task.parts, False) == pytest.approx(len(task.parts.train) / len(task.parts.seen))
    assert [label_share(m, task.parts, True) for m in ("plain", "probe-shares", "residual", "fisher-gains")][:3] == [0.0, 1.0, 1.0]
    assert label_share("fisher-gains", task.parts, True) < 1, "it is not trained by the loop, so it does not learn again"


def test_a_tuned_comparison_says_what_it_chose_and_resumes(encoder, data, tmp_path):
    methods, protocol = ["plain", "scalar", "aligner"], Protocol(tune=True)
    first = compare(encoder, data, tmp_path, methods, RECIPE, protocol)
    chosen = first.cells.set_index("method").chosen
    assert chosen["scalar"].str.fullmatch(r"rate=[\d.]+, decay=[\de.-]+, epochs=\d").all()
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


def test_the_smallest_strength_that_keeps_the_gain(task):
    """By hand: accuracy on the stopping part at every strength; learning once more takes the strength that the parts chose."""
    options = RECIPE.changed(form="gains", rate=0.5, epochs=6).options("residual")
    first, _ = learn("residual", task, options, Learning(again=False))
    stop = task.parts.stop

    def reached(tau):
        embeddings = torch.nn.functional.normalize(first.scaled(tau).embed(task.setting)[stop], dim=-1)
        return (embeddings @ task.directions.T).argmax(1).eq(task.targets[stop]).double().mean().item()

    found = {tau: reached(tau) for tau in STRENGTHS}
    assert found[1.0] > found[0.0], "nothing was gained, so the test proves nothing"
    for share in (0.5, 1.0):
        goal = found[0.0] + share * (found[1.0] - found[0.0])
        final, chosen = learn("residual", task, options, Learning(keep_gain=share))
        assert chosen["tau"] == min(tau for tau in STRENGTHS if found[tau] >= goal - 1e-9)
        assert {s.tau for s in final.residual.sets} == {chosen["tau"]}


def test_a_strength_needs_a_method_that_has_one(encoder, data, tmp_path):
    with pytest.raises(OptionError, match=r"--tau does nothing for plain, aligner: it is read by .*lora"):
        compare(encoder, data, tmp_path, ["plain", "aligner"], protocol=Protocol(tau=0.5))
    with pytest.raises(OptionError, match="give one of the two"):
        Learning(tau=0.5, keep_gain=0.9)
    with pytest.raises(OptionError, match="more than was learned"):
        Learning(tau=1.5)
    with pytest.raises(OptionError, match="no list of numbers"):
        compare(encoder, data, tmp_path, ["plain"], protocol=Protocol(strengths="all"))


def test_accuracy_at_every_strength_is_compared(encoder, data, tmp_path):
    """At no strength a method is the model as it was, at all of it what it learned; on the task and elsewhere."""
    protocol = Protocol(strengths="0,0.5,1", again=False)
    found = compare(encoder, data, tmp_path, ["plain", "gains", "aligner"], RECIPE, protocol, other=data.limited(24))
    table, summary = found.tables["comparison_strength"], found.summary.set_index("method")
    assert table.method.tolist() == ["gains"] * 3, "what has no strength has no curve"
    ends = table.set_index("tau")
    for column in ("accuracy", "other"):
        assert ends[column][0.0] == pytest.approx(summary[column]["plain"])
        assert ends[column][1.0] == pytest.approx(summary[column]["gains"])
    assert "curve" not in found.cells
    again = compare(encoder, data, tmp_path, ["plain", "gains", "aligner"], RECIPE, protocol, other=data.limited(24))
    assert again.tables["comparison_strength"].equals(table)


def test_answers_can_be_kept(task):
    """The heavier the penalty, the nearer the embeddings stay to those of the model as it was."""
    plain = torch.nn.functional.normalize(task.setting.embeddings, dim=-1)

    def moved(weight):
        options = RECIPE.changed(rate=0.5, epochs=4, keep_answers=weight).options("gains")
        embeddings = METHODS["gains"].run(whole(task), options).embed(task.setting)
        return (torch.nn.functional.normalize(embeddings, dim=-1) - plain).square().sum(-1)[task.parts.train].mean().item()

    free, held, fixed = (moved(weight) for weight in (0.0, 10.0, 1e4))
    assert free > held > fixed


def test_answers_are_kept_on_clips_without_labels(encoder, data, sound_files, tmp_path, capsys):
    """On clips that nothing is learned from: the heavier, the less they move. They are in no part."""
    table = tmp_path / "others.csv"
    table.write_text("path,label\n" + "".join(f"{path},unknown\n" for path in [*sound_files, tmp_path / "missing.wav"]))

    def moved(weight):
        recipe = RECIPE.changed(rate=0.5, epochs=4, keep_answers=weight)
        setting = prepare(encoder, data, ["gains"], recipe, keep=str(table))
        assert len(setting.embeddings) == len(setting.rows) == len(data)
        assert len(setting.unlabelled) == len(setting.beside) == len(sound_files)
        assert not setting.errors
        assert setting.kept["clips"] == len(sound_files) + 1
        assert ["missing.wav" in why for why in setting.kept["errors"].values()] == [True]
        parts = next(fold_parts(setting.dataset, 0))[1]
        task = FoldTask(setting, torch.from_numpy(setting.dataset.targets), replace(parts, stop=parts.stop[:0]), 0)
        learned = METHODS["gains"].run(task, recipe.options("gains")).residual
        after = GainLearner(learned, setting.streams).embed(setting.unlabelled)
        return (
            (torch.nn.functional.normalize(after, dim=-1) - torch.nn.functional.normalize(setting.beside, dim=-1)).square().sum(-1).mean()
        )

    assert moved(0.0) > moved(10.0) > moved(1e4)
    protocol, out = Protocol(keep_clips=str(table)), tmp_path / "out"
    both = compare(encoder, data, out, ["gains", "aligner"], RECIPE.changed(keep_answers=1.0), protocol, other=data.limited(24))
    assert len(both.summary) == 2
    recorded = json.loads((both.write(out) / "comparison.json").read_text())
    assert list(recorded["keep_clips"]["errors"]) == list(both.info["keep_clips"]["errors"])
    unreadable(both.errors, data, out / "comparison.json", both.info["keep_clips"])
    assert f"1 of {len(sound_files) + 1} clips of --keep-clips {table} could not be read" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(OptionError, match="--keep-clips does nothing without --keep-answers"):
        compare(encoder, data, tmp_path / "none", ["gains"], RECIPE, protocol)


def whole(task):
    """Without a stopping part, so that the last epoch counts."""
    parts = task.parts
    return replace(task, parts=replace(parts, stop=parts.stop[:0]))
