"""Gains are learned on cached streams, stop on clips they did not see, and come back at their best."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.decomposition import PCA

from residual_audio.adaptation.adapter import AdapterError, load_adapter, save_adapter
from residual_audio.adaptation.attach import attached
from residual_audio.adaptation.gain import ResiDual, gain_set, kept_axes, random_basis, starting_gains
from residual_audio.adaptation.learner import GainLearner
from residual_audio.adaptation.objective import CentroidBank, Objective, centred
from residual_audio.adaptation.recipe import Recipe
from residual_audio.adaptation.select import choose_places
from residual_audio.adaptation.streams import cache_streams, entering, first_block, place_bases
from residual_audio.adaptation.train import Course, Lesson, Training, find_rate, make_optimiser, train_gains
from residual_audio.data import load_dataset
from residual_audio.models import load_encoder
from residual_audio.models.copies import Cores
from residual_audio.models.recording import record
from residual_audio.options import OptionError
from residual_audio.spectra import Basis


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("tiny")


@pytest.fixture(scope="module")
def data():
    return load_dataset("synthetic-timbre").limited(72)


@pytest.fixture(scope="module")
def places(encoder):
    return choose_places(encoder.units, "S3 heads")


@pytest.fixture(scope="module")
def streams(encoder, data, places):
    return cache_streams(encoder, [c.source for c in data.clips], first_block(encoder, places))


@pytest.fixture(scope="module")
def residual(streams, places):
    bases = place_bases(streams, np.arange(0, 72, 3), places, "token")
    return ResiDual(tuple(gain_set(p, b) for p, b in zip(places, bases, strict=True)))


def objective(encoder, data):
    return Objective(F.normalize(encoder.embed_text([data.names[x] for x in data.labels]), dim=-1), False, encoder.logit_scale)


def lesson(data, goal):
    rows = np.arange(72)
    return Lesson(rows[rows % 3 == 1], rows[rows % 3 == 2], torch.from_numpy(data.targets), len(data.labels), goal)


def test_cached_streams_give_the_whole_forward(encoder, data, streams):
    assert streams.block == 10
    whole = encoder.embed([c.source for c in data.clips[:6]])
    assert (F.normalize(streams.embed(np.arange(6)), dim=-1) - whole).abs().max() < 1e-5


def test_more_than_memory_goes_to_a_file(encoder, data, streams):
    on_disk = cache_streams(encoder, [c.source for c in data.clips[:4]], streams.block, limit=1000)
    assert isinstance(on_disk.values, np.memmap)
    np.testing.assert_allclose(on_disk.values, streams.values[:4], atol=1e-5)


def test_running_stops_at_the_block(encoder, data):
    features = encoder.prepare(data.clips[0].source).features
    ran = []
    handle = encoder.module.get_submodule(encoder.sites[-1].module).register_forward_pre_hook(lambda *a: ran.append(1))
    entering(encoder, features, torch.zeros(1, dtype=torch.bool), 3)
    handle.remove()
    assert not ran


@pytest.mark.parametrize("level", ["token", "clip"])
def test_bases_are_scikit_learns(encoder, streams, places, level):
    rows = np.arange(12)
    basis = place_bases(streams, rows, places, level)[0]
    seen = []
    with torch.no_grad(), record(encoder, heads=lambda s, z: seen.append(z), sites=(encoder.sites[10],)):
        encoder.resume(streams.batch(rows), 10)
    z = seen[0].reshape(12, -1, encoder.sites[10].heads, encoder.units.d_head[3]).double()
    z = z[:, :, 5].flatten(0, 1) if level == "token" else z[:, :, 5].mean(1)
    theirs = PCA().fit(z.numpy())
    torch.testing.assert_close(basis.variance[5].double(), torch.from_numpy(theirs.explained_variance_), rtol=1e-3, atol=1e-7)
    overlap = np.abs(np.sum(basis.axes[5].double().numpy() * theirs.components_, axis=1))
    assert (overlap[:4] > 0.999).all()


def test_learning_helps_and_changes_only_gains(encoder, data, streams, residual):
    before = {k: v.clone() for k, v in encoder.module.state_dict().items()}
    how = Training(epochs=8, patience=8, rate=0.1, batch_size=12)
    given = lesson(data, objective(encoder, data))
    found = train_gains(residual, streams, given, how)
    assert found.history[-1]["train_loss"] < found.history[1]["train_loss"]
    assert all(torch.equal(before[k], v) for k, v in encoder.module.state_dict().items())
    assert all(p.requires_grad for p in encoder.module.parameters())
    moved = [(s.values - 1).abs().max().item() for s in found.residual.sets]
    assert max(moved) > 0.01
    # What came back is the best epoch, not the last one.
    with attached(encoder, found.residual):
        scores = given.objective.scores(streams.embed(given.stop), None)
    right = scores.argmax(1).eq(given.targets[given.stop]).float().mean().item()
    assert right == pytest.approx(found.best["stop_accuracy"], abs=1e-6)
    again = train_gains(residual, streams, given, how)
    assert all(torch.equal(a.values, b.values) for a, b in zip(found.residual.sets, again.residual.sets, strict=True)), "not seeded"


@pytest.mark.parametrize("optimiser", ["adam", "schedulefree"])
@pytest.mark.parametrize("centroids", [False, True])
def test_other_optimisers_and_objectives(encoder, data, streams, residual, optimiser, centroids):
    goal = Objective(None if centroids else objective(encoder, data).directions, centroids, 20.0)
    found = train_gains(residual, streams, lesson(data, goal), Training(epochs=3, rate=0.05, optimiser=optimiser, batch_size=12))
    assert np.isfinite([h["stop_loss"] for h in found.history]).all()
    assert found.history[-1]["train_loss"] < found.history[1]["train_loss"]


def test_overlapping_parts_are_refused(encoder, data):
    with pytest.raises(ValueError, match="overlap"):
        Lesson(np.arange(9), np.array([3]), torch.from_numpy(data.targets), 12, objective(encoder, data))


def test_the_rate_finder_finds_a_rate_and_leaves_no_trace(encoder, data, streams, residual):
    learner = GainLearner(residual, streams)
    before = [p.detach().clone() for p in learner.parameters]
    rate = find_rate(learner, lesson(data, objective(encoder, data)), Training(batch_size=12), steps=8)
    by_rate = {
        r: train_gains(residual, streams, lesson(data, objective(encoder, data)), Training(rate=r, epochs=2, batch_size=12)).history[-1]
        for r in (rate, 1e-4, 30.0)
    }
    assert by_rate[rate]["train_loss"] < by_rate[1e-4]["train_loss"], "too slow"
    assert by_rate[rate]["train_loss"] < by_rate[30.0]["train_loss"], "too fast"
    assert all(torch.equal(a, b) for a, b in zip(before, learner.parameters, strict=True))


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_cores_share_a_batch_without_changing_it(encoder, data, streams, residual, cores):
    """Embeddings and gradients of a batch are those of one plain backward pass, however many cores take part."""
    learner = GainLearner(residual, streams)
    learner.cores = Cores(encoder, cores)
    rows = np.array([3, 1, 40, 22, 9])
    goal, targets = objective(encoder, data), torch.from_numpy(data.targets)[rows]
    gains = [s.values.clone().requires_grad_() for s in residual.sets]
    with attached(encoder, residual, gains):
        expected = encoder.resume(streams.batch(rows), streams.block)
    loss = goal.loss(expected, torch.arange(5), targets, None)
    wanted = torch.autograd.grad(loss, gains)
    encoder.module.zero_grad(set_to_none=True)
    found = learner.forward(rows).requires_grad_()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    goal.loss(found, torch.arange(5), targets, None).backward()
    learner.backward(found.grad)
    for parameter, gradient in zip(learner.parameters, wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-3, atol=1e-5)
    assert all(p.grad is None for p in encoder.module.parameters()), "a weight got a gradient"


def test_penalties_pull_gains_towards_one_and_zero(encoder, data, streams, residual):
    learner = GainLearner(residual.with_values([torch.full_like(s.values, 3.0) for s in residual.sets]), streams)
    course = Course(learner, lesson(data, objective(encoder, data)), Training(decay=0.5, l1=0.25))
    course.penalty()
    assert all(torch.allclose(p.grad, torch.tensor(2 * 0.5 * (3.0 - 1.0) + 0.25)) for p in learner.parameters)


def test_the_optimisers_own_decay_is_that_of_adamw(streams, residual):
    """Without a gradient, one step of AdamW only shrinks: p (1 − rate · weight decay), towards zero and not towards one."""
    learner = GainLearner(residual, streams)
    before = [p.detach().clone() for p in learner.parameters]
    for parameter in learner.parameters:
        parameter.grad = torch.zeros_like(parameter)
    make_optimiser(learner, "adamw", 0.1, weight_decay=0.5).step()
    for parameter, old in zip(learner.parameters, before, strict=True):
        torch.testing.assert_close(parameter.detach(), old * (1 - 0.1 * 0.5))
    with pytest.raises(OptionError, match="Adam has none of its own"):
        Recipe(weight_decay=0.1, optimiser="adam").check(["residual"])
    assert Recipe(weight_decay=0.1).options("gains").training(0.1, 0).weight_decay == 0.1


def test_a_lesson_may_be_stopped_by_its_own_clips_where_that_is_asked_for(encoder, data):
    rows = np.arange(9)
    assert Lesson(rows, rows, torch.from_numpy(data.targets), 12, objective(encoder, data), trusting=True).trusting


def test_centroid_logits_leave_the_clip_out():
    torch.manual_seed(0)
    x, targets = torch.randn(20, 6, dtype=torch.float64), torch.arange(20) % 4
    bank = CentroidBank(x, targets, 4)
    rows = torch.tensor([3, 7, 10])
    found = bank.logits(x[rows], rows)
    unit = centred(x, F.normalize(x, dim=-1).mean(0))
    for i, row in enumerate(rows.tolist()):
        for c in range(4):
            others = [j for j in range(20) if targets[j] == c and j != row]
            expected = unit[row] @ F.normalize(unit[others].sum(0), dim=-1)
            assert found[i, c].item() == pytest.approx(expected.item(), abs=1e-12)


def test_the_gradient_passes_through_the_centroids():
    torch.manual_seed(1)
    x, targets = torch.randn(8, 5, dtype=torch.float64), torch.arange(8) % 2
    bank = CentroidBank(x, targets, 2)
    rows = torch.arange(8)
    live = x.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda e: bank.logits(e, rows), (live,))


def test_kept_axes_and_starts():
    variance = torch.tensor([[8.0, 1.0, 0.9, 0.1], [5.0, 4.0, 0.9, 0.1]])
    basis = Basis(torch.eye(4).expand(2, 4, 4), variance, torch.zeros(2, 4))
    assert kept_axes(basis, None) == 4
    assert kept_axes(basis, 2) == 2
    assert kept_axes(basis, 0.85) == 2
    assert starting_gains(basis, 4, 0.85).tolist() == [[1, 1, 0, 0], [1, 1, 0, 0]]
    assert starting_gains(basis, 4, None).eq(1).all()


def test_random_axes_are_orthonormal_and_know_their_variance():
    basis = Basis(torch.eye(5).expand(3, 5, 5), torch.rand(3, 5).sort(descending=True).values, torch.zeros(3, 5))
    other = random_basis(basis, 7)
    torch.testing.assert_close(other.axes @ other.axes.mT, torch.eye(5).expand(3, 5, 5), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(other.variance.sum(1), basis.variance.sum(1))
    assert torch.equal(random_basis(basis, 7).axes, other.axes)


def test_an_adapter_comes_back_as_it_was(encoder, residual, tmp_path):
    folder = save_adapter(tmp_path / "adapter", encoder, residual)
    assert sorted(p.name for p in folder.iterdir()) == ["README.md", "adapter_config.json", "adapter_model.safetensors"]
    again = load_adapter(folder, encoder)
    assert [s.place for s in again.sets] == [s.place for s in residual.sets]
    assert all(torch.equal(a.values, b.values) and torch.equal(a.axes, b.axes) for a, b in zip(again.sets, residual.sets, strict=True))
    assert encoder.revision in (folder / "README.md").read_text()
    save_adapter(folder, encoder, residual, replace=True)
    assert [p.name for p in tmp_path.iterdir()] == ["adapter"], "a half-written one was left behind"


def test_another_base_is_refused(encoder, residual, tmp_path, laion_dir):
    folder = save_adapter(tmp_path / "adapter", encoder, residual)
    with pytest.raises(AdapterError, match="was made for tiny"):
        load_adapter(folder, load_encoder(laion_dir))
    with pytest.raises(AdapterError, match="neither a directory nor"):
        load_adapter(tmp_path / "nothing", encoder)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("precious")
    with pytest.raises(AdapterError, match="not empty"):
        save_adapter(tmp_path / "full", encoder, residual)
