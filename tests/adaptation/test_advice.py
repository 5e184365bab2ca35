"""The recipe that nobody asked for: chosen by the clips at hand, told with its reasons, and judged on clips that were held out first."""

from dataclasses import replace

import pytest
import torch

from residual_audio.adaptation import advice
from residual_audio.adaptation.adapt import adapt
from residual_audio.adaptation.advice import advised, check_budget, own_parts, with_units, within
from residual_audio.adaptation.defaults import FEW, FORM, MANY, UNITS
from residual_audio.adaptation.prepare import prepare
from residual_audio.adaptation.recipe import Recipe
from residual_audio.adaptation.task import FoldTask
from residual_audio.adaptation.tuning import Learning, learn
from residual_audio.cli.adapt import worth
from residual_audio.data import load_dataset
from residual_audio.evaluation.classifiers import fit_probe
from residual_audio.evaluation.folds import fold_parts
from residual_audio.models import load_encoder
from residual_audio.options import OptionError

RECIPE = Recipe(units="S3B1 heads", epochs=2, batch_size=32, rate=0.5)


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("tiny")


@pytest.fixture(scope="module")
def data():
    return load_dataset("synthetic-timbre").limited(120)


@pytest.fixture(scope="module")
def task(encoder, data):
    setting = prepare(encoder, data, ["residual"], RECIPE)
    return FoldTask(setting, torch.from_numpy(setting.dataset.targets), next(fold_parts(setting.dataset))[1], 0)


def test_held_clips_tell_what_the_adapter_and_a_probe_are_worth(encoder, data, task):
    """Each figure once more here; what is left was learned from all clips, also the held ones."""
    adapted = adapt(encoder, data, RECIPE)
    parts, targets = task.parts, task.targets
    unit = torch.nn.functional.normalize(task.setting.embeddings, dim=-1)
    groups = [task.setting.dataset.groups[i] for i in parts.seen]
    weight, bias, _ = fit_probe(unit[parts.seen], targets[parts.seen], task.classes, 0, groups)
    own, chosen = learn("residual", task, RECIPE.changed(form=FORM).options("residual"))
    expected = {
        "plain": unit[parts.test] @ task.directions.T,
        "linear probe": unit[parts.test] @ weight.T + bias,
        "residual": torch.nn.functional.normalize(own.embed(task.setting)[parts.test], dim=-1) @ task.directions.T,
    }
    assert chosen["epochs"] > 0
    assert adapted.held == {k: pytest.approx(s.argmax(1).eq(targets[parts.test]).double().mean().item()) for k, s in expected.items()}
    assert adapted.info["held"]["clips"] == len(parts.test)
    assert f"then all {len(data)} once more" in adapted.residual.notes["clips"]
    assert f"on {len(parts.test)} clips held out first: plain" in worth(adapted)
    nothing = replace(adapted, residual=replace(adapted.residual, notes={**adapted.residual.notes, "epochs": 0}))
    assert "the adapter changes nothing" in worth(nothing)
    mean = adapted.residual.sets[0].mean
    assert not torch.equal(mean, own.residual.sets[0].mean), "the basis is not of all clips"


def test_units_follow_the_number_of_clips_and_the_stages(encoder, data, whisper_dir):
    """The last two stages of many clips; the last two blocks of fewer, and of encoders without stages; what is given stays."""
    many = load_dataset("synthetic-timbre").limited(12 * MANY)
    for clips, units in ((many, "S2 S3 heads mlps"), (data, UNITS)):
        recipe, (why,) = with_units(Recipe(), "residual", encoder.units, clips)
        assert recipe["units"] == units
        assert units in why
        assert f"{len(clips) / 12:.0f} clips per class" in why
    assert with_units(Recipe(), "residual", load_encoder(whisper_dir).units, many)[0]["units"] == UNITS
    assert with_units(RECIPE, "residual", encoder.units, many) == (RECIPE, [])
    assert with_units(Recipe(), "aligner", encoder.units, many) == (Recipe(), [])


def test_the_form_follows_the_number_of_clips_and_what_is_given_stays(encoder, data, task):
    found = advised(task.setting, "residual", Recipe(), Learning())
    assert len(data) / 12 >= FEW
    assert found.recipe["form"] == FORM
    few = prepare(encoder, data.limited(12 * (FEW - 1)), ["residual"], RECIPE)
    assert advised(few, "residual", Recipe(), Learning()).recipe["form"] == "gains"
    given = advised(few, "residual", Recipe(form="axes", units="S3B1 heads"), Learning(again=False))
    assert dict(given.recipe) == {"form": "axes", "units": "S3B1 heads"}
    assert given.reasons == []
    tiny = prepare(encoder, data.limited(24), ["residual"], RECIPE)
    parts = own_parts(tiny, tiny.rows, tiny.rows[:0], 0)
    assert len(parts.train) == len(parts.stop) == 12, "two clips per class: one to learn from, one to stop on"


@pytest.mark.parametrize(("epoch", "tunes", "epochs"), [(0.01, True, 4), (3.0, False, 4), (30.0, False, 1)])
def test_a_budget_buys_tuning_or_fewer_epochs(task, monkeypatch, epoch, tunes, epochs):
    """One minute, at so many seconds per epoch by a clock that is not the machine's."""
    clock = iter([0.0, epoch])
    monkeypatch.setattr(advice.time, "perf_counter", lambda: next(clock))
    recipe = Recipe(units="S3B1 heads", epochs=4, form="gains")
    found = within(1.0, task, "residual", advice.Advice(recipe, Learning()))
    assert found.learning.tune == tunes
    assert found.recipe["epochs"] == epochs
    assert f"{epoch:.1f} s" in " ".join(found.reasons)


def test_a_budget_that_makes_no_sense_is_told(encoder, data):
    for budget, method, recipe, message in (
        (0.0, "residual", Recipe(), "more than none"),
        (5.0, "top-heads", Recipe(), "learns nothing"),
        (5.0, "residual", Recipe(epochs=3), "give one of the two"),
    ):
        with pytest.raises(OptionError, match=message):
            check_budget(budget, method, recipe)
    with pytest.raises(OptionError, match="learns nothing"):
        adapt(encoder, data, method="top-heads", budget=1.0)
