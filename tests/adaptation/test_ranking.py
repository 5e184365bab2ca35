"""Rankings of heads on the training part, selection by them, and bases from elsewhere."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from residual_audio.adaptation.attach import attached
from residual_audio.adaptation.gain import Shape
from residual_audio.adaptation.methods import METHODS
from residual_audio.adaptation.methods.residual import FormOptions, places_of
from residual_audio.adaptation.prepare import prepare
from residual_audio.adaptation.ranking import head_scores, some_training_clips, top_places
from residual_audio.adaptation.recipe import Recipe
from residual_audio.adaptation.select import choose_places
from residual_audio.adaptation.starting import bases_of, starting
from residual_audio.adaptation.task import FoldTask
from residual_audio.analysis.discriminability import fisher_ratio
from residual_audio.data import load_dataset
from residual_audio.evaluation import EvaluationError
from residual_audio.evaluation.folds import fold_parts
from residual_audio.extraction import Run, extract
from residual_audio.models import load_encoder
from residual_audio.spectra import principal_axes
from residual_audio.units import SelectionError
from tests.helpers.gains import only_gain

RECIPE = Recipe(units="S3B1 heads", by="text")


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("tiny")


@pytest.fixture(scope="module")
def data():
    return load_dataset("synthetic-timbre").limited(96)


@pytest.fixture(scope="module")
def task(encoder, data):
    setting = prepare(encoder, data, ["residual"], RECIPE)
    return FoldTask(setting, torch.from_numpy(setting.dataset.targets), next(fold_parts(setting.dataset))[1], 0)


@pytest.fixture(scope="module")
def run(encoder, data, tmp_path_factory):
    return extract(encoder, data, tmp_path_factory.mktemp("run") / "r", ("head", "moments", "direct"))


def test_fisher_is_that_of_the_pooled_head_outputs(task, run, encoder):
    places = choose_places(encoder.units, "S3B1 heads")
    found = head_scores(task, "fisher", places)
    labels = [u.label for u in run.units.where("head")]
    mine = [labels.index(label) for label in places[0].labels]
    train = task.parts.train
    expected = fisher_ratio(run.heads[train][:, mine].float(), task.targets[train], task.classes)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-6)


def test_text_is_the_direct_share_towards_the_class(task, run, encoder):
    places = choose_places(encoder.units, "S3B1 heads")
    found = head_scores(task, "text", places)
    rows = task.parts.train
    assert len(rows) <= 256
    labels = [u.label for u in run.units]
    shares = run.joint_shares(rows.tolist())[0][:, [labels.index(label) for label in places[0].labels]].double()
    towards = (task.directions - task.directions.mean(0)).double()
    for i in (0, 7, 31):
        expected = np.mean([float((shares[n, i] - shares[:, i].mean(0)) @ towards[task.targets[row]]) for n, row in enumerate(rows)])
        assert found[i].item() == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_ablation_is_the_rise_of_the_loss_without_the_head(task, encoder):
    places = choose_places(encoder.units, "S3B1H2 S3B1H20")
    found = head_scores(task, "ablation", places)
    rows = some_training_clips(task, 64)
    start = starting(task, places, bases_of(task, places, "token"), "keep", Shape("scalar"))

    def loss(residual):
        with attached(encoder, residual):
            embedded = F.normalize(task.streams.embed(rows), dim=-1)
        return float(F.cross_entropy(encoder.logit_scale * embedded @ task.directions.T, task.targets[rows]))

    for i in range(2):
        assert found[i].item() == pytest.approx(loss(only_gain(start, i, 0.0)) - loss(start), abs=1e-4)


@pytest.mark.parametrize("by", ["fisher", "ablation", "text"])
def test_the_top_heads_get_the_gains(task, by):
    options = FormOptions(form="gains", units="S3B1H0 S3B1H3 S3B1H4 S3B1H9", by=by, top=2, epochs=1)
    places = choose_places(task.encoder.units, options.units)
    scores = head_scores(task, by, places)
    expected = sorted(places[0].heads[i] for i in scores.topk(2).indices.tolist())
    assert [p.heads for p in top_places(task, by, options.units, 2)] == [tuple(expected)]
    assert [p.heads for p in places_of(task, options, "auto")] == [tuple(expected)]
    learned = METHODS["residual"].run(task, options).residual
    assert learned.trained == 2 * task.encoder.units.d_head[3]
    assert learned.notes["heads"] == f"the best 2 by {by}"


@pytest.mark.parametrize(("units", "top", "kept"), [("heads", None, 20), ("S0B0 heads", None, 2), ("S0B0H1", None, 1), ("S3 heads", 7, 7)])
def test_without_a_number_half_of_few_heads(encoder, units, top, kept):
    """Twenty of four heads would be the model as it is; what is recorded is the number that is kept."""
    given = {"units": units, "by": "fisher"} | ({} if top is None else {"top": top})
    assert Recipe(**given).recorded("residual", encoder.units)["top"] == kept
    del given["by"]
    assert Recipe(**given).recorded("top-heads", encoder.units)["top"] == kept
    assert "top" not in Recipe(units=units).recorded("residual", encoder.units), "what is not read is not recorded"


def test_only_training_clips_are_ranked_on(task):
    """Other clips' labels change nothing."""
    places = choose_places(task.encoder.units, "S3B1H0 S3B1H3")
    other = task.targets.clone()
    rest = np.setdiff1d(np.arange(len(other)), task.parts.train)
    other[rest] = (other[rest] + 3) % 12
    for by in ("fisher", "ablation", "text"):
        assert torch.equal(head_scores(task, by, places), head_scores(replace(task, targets=other), by, places))


def test_only_heads_can_be_ranked(task):
    with pytest.raises(SelectionError, match="heads can be ranked"):
        top_places(task, "fisher", "S3 mlps", None)


def test_a_transferred_basis_is_the_other_runs(task, run):
    places = choose_places(task.encoder.units, "S3B1 heads")
    start = starting(task, places, bases_of(task, places, "token", str(run.store.address)), "keep")
    labels = [u.label for u in run.units.where("head")]
    moments = Run.open(run.store.address).moments("tokens")
    expected = principal_axes(moments)
    number = labels.index("S3B1H7")
    torch.testing.assert_close(start.sets[0].variance[7].double(), expected.variance[number], rtol=1e-4, atol=1e-8)
    torch.testing.assert_close(start.sets[0].mean[7].double(), expected.mean[number], rtol=1e-4, atol=1e-6)
    overlap = (start.sets[0].axes[7].double() * expected.axes[number]).sum(-1).abs()
    assert (overlap[:4] > 0.999).all()
    with pytest.raises(EvaluationError, match="of heads"):
        bases_of(task, choose_places(task.encoder.units, "S3 mlps"), "token", str(run.store.address))
