"""One contract that every method fulfils: nothing of the test reaches it, and every option that it has is read, and no other."""

from dataclasses import fields
from itertools import islice

import numpy as np
import pytest
import torch
from scipy import stats

from residual_audio.adaptation.methods import METHODS
from residual_audio.adaptation.prepare import prepare
from residual_audio.adaptation.recipe import Recipe, all_options
from residual_audio.adaptation.task import FoldTask
from residual_audio.data import load_dataset
from residual_audio.evaluation import choose_classifier
from residual_audio.evaluation.folds import fold_parts
from residual_audio.models import load_encoder
from residual_audio.options import OptionError, option_specs

GIVEN = {"units": "S3B1 heads", "epochs": 3, "rate": 0.1, "batch_size": 32}
# A value of each option that is not its default, where None or the default would not do.
OTHER = {"kept": 4, "retain": 4, "wide_form": "axes", "wide_kept": 8, "start": 0.9, "by": "ablation", "top": 8, "logit_scale": 5.0}


def recipe_for(method, **more):
    return Recipe(**{k: v for k, v in {**GIVEN, **more}.items() if k in option_specs(METHODS[method].options)})


@pytest.fixture(scope="module")
def setting():
    data = load_dataset("synthetic-timbre").limited(120)
    return prepare(load_encoder("tiny"), data, ["residual", "finetune"], Recipe(units="S3B1 heads"))


def scores_of(method, task, options):
    learned, judge = METHODS[method].run(task, options), choose_classifier("auto", task.encoder)
    return task.scores(learned.embed(task.setting), judge) if learned.scores is None else learned.scores


@pytest.mark.parametrize("method", METHODS)
def test_shuffled_labels_give_chance(setting, method):
    """Nothing of the test fold reaches a method: with labels shuffled, accuracy on it is not above guessing.

    It may be below: folds that balance the classes leave fewer clips of a test clip's class to learn from.
    """
    shuffled = torch.from_numpy(np.random.default_rng(3).permutation(setting.dataset.targets))
    right, total = 0, 0
    # Methods that run the whole encoder take their time: a single fold of theirs would show a leak as well.
    for _, parts in islice(fold_parts(setting.dataset), 1 if METHODS[method].whole or method in ("lora", "ia3") else None):
        scores = scores_of(method, FoldTask(setting, shuffled, parts, 0), recipe_for(method).options(method))
        right += int(scores.argmax(1).eq(shuffled[parts.test]).sum())
        total += len(parts.test)
    assert stats.binomtest(right, total, 1 / 12, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize("method", [m for m in METHODS if m != "finetune"])  # it learns by the same lesson as lora, at ten times the cost
def test_the_test_labels_are_never_read(setting, method):
    """Changing the test fold's labels changes no score."""
    parts = next(fold_parts(setting.dataset))[1]
    targets = torch.from_numpy(setting.dataset.targets)
    other = targets.clone()
    other[parts.test] = (other[parts.test] + 5) % 12
    options = recipe_for(method, epochs=1).options(method)
    a, b = (scores_of(method, FoldTask(setting, t, parts, 0), options) for t in (targets, other))
    assert torch.equal(a, b)


@pytest.mark.parametrize("method", METHODS)
def test_every_option_it_does_not_read_is_refused(method):
    """By name, with the methods that do read it; also in company, as long as nobody in it reads the option."""
    own = option_specs(METHODS[method].options)
    for name, owners in all_options().items():
        spec = next(iter(owners.values()))
        value = OTHER.get(name, spec.default)
        if name in own and own[name].needs is None:
            Recipe(**{name: value}).check([method])
            assert name in Recipe(**{name: value}).read_by(method)
            continue
        with pytest.raises(OptionError, match=f"{spec.flag} does nothing for {method}") as told:
            Recipe(**{name: value}).check([method])
        assert any(other in str(told.value) for other in owners if other != method)
        Recipe(**{name: value, **({own[name].needs: OTHER["by"]} if name in own else {})}).check(
            [method] if name in own else [method, next(o for o in owners if owners[o].needs is None)]
        )


class Watched:
    """Stands in for a method's options and remembers which were looked at."""

    def __new__(cls, options):
        seen = set()
        names = {f.name for f in fields(options)}

        class Spy(type(options)):
            def __getattribute__(self, name):
                if name in names:
                    seen.add(name)
                return super().__getattribute__(name)

        spy = Spy(**{name: getattr(options, name) for name in names})
        seen.clear()
        return spy, seen


@pytest.mark.parametrize("method", METHODS)
def test_every_option_it_has_is_read(setting, method):
    """An option that a method lists and never looks at would do nothing, and be recorded as if it had."""
    own = option_specs(METHODS[method].options)
    small = {"epochs": 1, "top": 8} | ({"by": "fisher"} if "by" in own else {})
    spy, seen = Watched(recipe_for(method, **small).options(method))
    parts = next(fold_parts(setting.dataset))[1]
    scores_of(method, FoldTask(setting, torch.from_numpy(setting.dataset.targets), parts, 0), spy)
    assert seen == set(own)


def test_what_is_given_and_what_is_recorded(setting):
    units = setting.encoder.units
    recipe = Recipe(units="S3 heads", lora_rank=8)
    assert recipe.recorded("lora", units)["lora_rank"] == 8
    assert set(recipe.recorded("residual", units)) == set(option_specs(METHODS["residual"].options)) - {"top"}
    assert recipe.recorded("plain", units) == {}
    with pytest.raises(OptionError, match="no method has an option 'unit'; did you mean units"):
        Recipe(unit="S3 heads")


@pytest.mark.parametrize(
    "wrong", [{"mean": "kept"}, {"level": "tokens"}, {"towards": "text"}, {"kept": 0}, {"kept": 1.5}, {"epochs": 0}, {"by": "luck"}]
)
def test_a_value_that_makes_no_sense_is_told(wrong):
    with pytest.raises(OptionError, match=f"--{next(iter(wrong))}"):
        Recipe(**wrong).check(["residual"])


@pytest.mark.parametrize("method", [m for m in METHODS if METHODS[m].folds])
def test_what_folds_does_what_its_scores_say(setting, method):
    """The folded encoder has the same keys and embeddings; at no strength it is the model as it was, half way its weights are half way."""
    parts = next(fold_parts(setting.dataset))[1]
    task = FoldTask(setting, torch.from_numpy(setting.dataset.targets), parts, 0)
    learned = METHODS[method].run(task, recipe_for(method, epochs=1).options(method))
    assert (learned.residual is not None) == METHODS[method].adapter
    rows = parts.test[:3]
    live, folded = learned.embed(setting)[rows], learned.fold()
    torch.testing.assert_close(setting.whole.embed(rows, encoder=folded).cpu(), live, rtol=1e-4, atol=1e-5)
    assert {k: v.shape for k, v in folded.module.state_dict().items()} == {
        k: v.shape for k, v in setting.encoder.module.state_dict().items()
    }
    torch.testing.assert_close(learned.scaled(0.0).embed(setting)[rows], setting.embeddings[rows], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(learned.scaled(1.0).embed(setting)[rows], live, rtol=1e-4, atol=1e-5)
    weights = (e.module.parameters() for e in (setting.encoder, learned.scaled(0.5).fold(), folded))
    assert all(torch.allclose((a + c) / 2, b, atol=1e-5) for a, b, c in zip(*weights, strict=True))


def test_what_does_not_fold_has_no_strength(setting):
    parts = next(fold_parts(setting.dataset))[1]
    task = FoldTask(setting, torch.from_numpy(setting.dataset.targets), parts, 0)
    learned = METHODS["aligner"].run(task, recipe_for("aligner", epochs=1).options("aligner"))
    assert learned.fold is None
    assert learned.scaled is None
