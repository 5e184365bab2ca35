"""Classifiers against scikit-learn and slow loops, and the promise that no clip helps to make its own."""

import pkgutil
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from residual_audio.data import Clip, Dataset, make_dataset, stratified_folds
from residual_audio.evaluation import CLASSIFIERS, EvaluationError, choose_classifier, classifiers
from residual_audio.evaluation.classifier import AUTO
from residual_audio.evaluation.classifiers.probe import NEVER, STRENGTHS, fit_probe
from residual_audio.evaluation.examples import INNER_FOLDS, Examples
from residual_audio.evaluation.metrics import margins, outcome
from residual_audio.evaluation.significance import mean_interval, mean_intervals
from residual_audio.models import load_encoder

LEARNED = [name for name, one in CLASSIFIERS.items() if one.reads_folds]


def fit(kind, embeddings, data, seed=0):
    """With made-up texts for those that cannot do without."""
    texts = torch.from_numpy(np.random.default_rng(9).standard_normal((len(data.labels), embeddings.shape[1]))).to(embeddings)
    needed = CLASSIFIERS[kind].texts == "needed"
    return CLASSIFIERS[kind].fit_folds(embeddings, data, F.normalize(texts, dim=-1) if needed else None, 10.0, seed)


@pytest.fixture(scope="module")
def tiny():
    return load_encoder("tiny")


@pytest.fixture(scope="module")
def mute(whisper_dir):
    """An encoder without a text side."""
    return load_encoder(whisper_dir, seconds=1.0)


@pytest.fixture(autouse=True)
def one_thread():
    """Small fits are done before threads have found each other."""
    with threadpool_limits(1):
        yield


def hand_made(labels, folds) -> Dataset:
    return make_dataset("hand", [Clip(str(i), f"{i}.wav", x, f) for i, (x, f) in enumerate(zip(labels, folds, strict=True))], "official")


def blobs(labels, noise=1.0, seed=0, d=6) -> torch.Tensor:
    """Clips about a direction of their class, of any length."""
    rng = np.random.default_rng(seed)
    centre = {label: rng.standard_normal(d) for label in sorted(set(labels))}
    return torch.from_numpy(np.stack([rng.uniform(0.5, 3) * (centre[x] + noise * rng.standard_normal(d)) for x in labels]))


@pytest.fixture(params=[2, 4])
def case(request):
    """Balanced classes in three folds, numbered 1, 5 and 9 as a dataset may have them."""
    labels = [f"class {i % request.param}" for i in range(60)]
    folds = [(1, 5, 9)[(i // request.param) % 3] for i in range(60)]
    return blobs(labels), hand_made(labels, folds)


def parts(data, fold):
    """Rows of the other folds and of this one."""
    own = np.array([c.fold for c in data.clips]) == fold
    return np.flatnonzero(~own), np.flatnonzero(own)


def test_every_file_registers_a_classifier_and_auto_is_among_them():
    files = {module.name for module in pkgutil.iter_modules(classifiers.__path__)}
    assert {one.make.__module__.rpartition(".")[2] for one in CLASSIFIERS.values()} == files
    assert {"prompts", "centroids", "probe"} <= set(CLASSIFIERS)
    assert all(one.help and "\n" not in one.help for one in CLASSIFIERS.values())
    assert set(AUTO) <= set(CLASSIFIERS)


def test_a_classifier_is_chosen_by_what_the_encoder_has(tiny, mute):
    assert choose_classifier("auto", tiny).name == choose_classifier("auto", tiny, "laion").name == "prompts"
    assert choose_classifier("auto", mute).name == "centroids"
    assert choose_classifier("probe", tiny).name == "probe"
    for encoder, name, template, says in (
        (tiny, "prompt", None, r"unknown classifier 'prompt'; did you mean prompts.*known are prompts, centroids, probe, gda"),
        (mute, "prompts", None, "no text side.*use --classifier centroids or probe or gda"),
        (mute, "auto", "laion", "centroids reads no prompts; .* has no text side"),
        (mute, "gda", "laion", "gda reads no prompts"),
        (tiny, "probe", "laion", "probe reads no prompts.*does: prompts, gda, kernel"),
    ):
        with pytest.raises(EvaluationError, match=says):
            choose_classifier(name, encoder, template)


def test_prompts_are_cosines():
    embeddings, directions = torch.randn(3, 5, 8), F.normalize(torch.randn(4, 8), dim=-1)
    fitted = CLASSIFIERS["prompts"].fit_folds(embeddings[0], hand_made("abcda", [1] * 5), directions)
    scores = fitted.scores(embeddings)
    assert scores.shape == (3, 5, 4)
    for unit in range(3):
        for clip in range(5):
            for c in range(4):
                e = embeddings[unit, clip]
                assert scores[unit, clip, c] == pytest.approx(float(e @ directions[c] / e.norm()), abs=1e-6)
    assert torch.equal(fitted.scores(embeddings[:, 1:3], slice(1, 3)), scores[:, 1:3])


def test_centroids_equal_scikit_learn_fold_by_fold(case):
    embeddings, data = case
    scores = fit("centroids", embeddings, data).scores(embeddings)
    unit = (embeddings / embeddings.norm(dim=-1, keepdim=True)).numpy()
    for fold in (1, 5, 9):
        train, test = parts(data, fold)
        centre = unit[train].mean(0)
        rows = [(unit[i] - centre) / np.linalg.norm(unit[i] - centre) for i in range(len(unit))]
        centroids = NearestCentroid().fit(np.stack([rows[i] for i in train]), data.targets[train]).centroids_
        for i in test:
            expected = [rows[i] @ c / np.linalg.norm(c) for c in centroids]
            np.testing.assert_allclose(scores[i], expected, rtol=1e-10, atol=1e-12)


def test_the_probe_equals_scikit_learn_fold_by_fold(case):
    embeddings, data = case
    scores = fit("probe", embeddings, data, seed=3).scores(embeddings)
    unit = F.normalize(embeddings, dim=-1).numpy()
    for fold in (1, 5, 9):
        train, test = parts(data, fold)
        rows, targets = torch.from_numpy(unit[train]), torch.from_numpy(data.targets[train])
        *_, strength = fit_probe(rows, targets, len(data.labels), seed=3)
        theirs = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=2000)).fit(unit[train], data.targets[train])
        np.testing.assert_array_equal(scores[test].argmax(1), theirs.predict(unit[test]))
        np.testing.assert_allclose(scores[test].softmax(1), theirs.predict_proba(unit[test]), atol=1e-8)


def test_more_dimensions_than_clips_change_nothing_but_the_time():
    """The regression in the span of the clips is scikit-learn's in all dimensions."""
    rng = np.random.default_rng(2)
    y = np.repeat(np.arange(3), 8)
    x = rng.standard_normal((24, 60)) + rng.standard_normal((3, 60))[y]
    weight, bias, strength = fit_probe(torch.from_numpy(x), torch.from_numpy(y), 3)
    theirs = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=2000, tol=1e-8)).fit(x, y)
    new = rng.standard_normal((9, 60))
    ours = (torch.from_numpy(new) @ weight.T + bias).softmax(1)
    np.testing.assert_allclose(ours, theirs.predict_proba(new), atol=2e-3)


def test_the_strength_is_chosen_inside_the_training_clips(case):
    """As a grid search would on the standardised rows; of equals the smallest."""
    embeddings, data = case
    rows, targets = embeddings.float(), torch.from_numpy(data.targets)
    *_, strength = fit_probe(rows, targets, len(data.labels), seed=5)
    inner = PredefinedSplit(stratified_folds(data.targets.tolist(), INNER_FOLDS, seed=5))
    search = GridSearchCV(LogisticRegression(max_iter=2000), {"C": STRENGTHS}, cv=inner)
    search.fit(StandardScaler().fit_transform(rows.double().numpy()), data.targets)
    assert strength == search.best_params_["C"]


def test_the_strength_is_chosen_on_groups_that_were_not_learned_from():
    """Clips of one group are copies of each other, and groups say nothing of the class: inner folds that split groups would not see it."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(np.repeat(rng.standard_normal((30, 40)), 6, axis=0) + 0.01 * rng.standard_normal((180, 40)))
    targets, groups = torch.from_numpy(np.repeat(np.arange(30) % 3, 6)), np.repeat(np.arange(30), 6).tolist()
    together, split = fit_probe(x, targets, 3, 0, groups), fit_probe(x, targets, 3, 0)
    assert together[2] < split[2]
    data = make_dataset(
        "grouped", [Clip(str(i), "x.wav", "abc"[t], i // 6 % 5, f"g{g}") for i, (t, g) in enumerate(zip(targets, groups, strict=True))]
    )
    held = np.array([c.fold for c in data.clips]) != 0
    ours = fit("probe", x, data).fitted[0].scorer.weight
    torch.testing.assert_close(ours, fit_probe(F.normalize(x, dim=-1)[held], targets[held], 3, 0, np.array(data.groups)[held].tolist())[0])


@pytest.fixture
def small():
    """Three classes in three folds, in groups of two."""
    labels = [f"class {i % 3}" for i in range(36)]
    clips = [Clip(str(i), f"{i}.wav", x, (1, 5, 9)[i // 3 % 3], f"g{i // 18} {i % 9}") for i, x in enumerate(labels)]
    return blobs(labels), make_dataset("small", clips, "official")


@pytest.mark.parametrize("kind", LEARNED)
def test_nothing_of_a_fold_is_in_its_own_classifier(small, kind):
    """Other labels and other sounds in one fold: its classifier stays bit by bit, and the others do not."""
    embeddings, data = small
    before = fit(kind, embeddings, data)
    _, test = parts(data, 5)
    labels = [c.label for c in data.clips]
    for i, j in zip(test, np.roll(test, 1), strict=True):
        labels[i] = data.clips[j].label
    changed = embeddings.clone()
    changed[test] = torch.randn(len(test), embeddings.shape[1], dtype=torch.float64)
    other = replace(data, clips=tuple(replace(c, label=x) for c, x in zip(data.clips, labels, strict=True)))
    after, new = fit(kind, changed, other), torch.randn(7, embeddings.shape[1], dtype=torch.float64)
    one, two = ([fitted.scores(new) for fitted in made.fitted] for made in (before, after))
    assert torch.equal(one[1], two[1])
    for fold in (0, 2):
        assert not torch.allclose(one[fold], two[fold])


@pytest.mark.parametrize("kind", LEARNED)
def test_the_length_of_an_embedding_does_not_matter_and_versions_are_independent(small, kind):
    embeddings, data = small
    fitted = fit(kind, embeddings, data)
    versions = torch.stack([embeddings, 7 * embeddings, -embeddings])
    scores = fitted.scores(versions)
    torch.testing.assert_close(scores[1], scores[0])
    torch.testing.assert_close(scores[2], fitted.scores(-embeddings))
    torch.testing.assert_close(fitted.scores(versions[:, 10:20], slice(10, 20)), scores[:, 10:20])


@pytest.mark.parametrize("kind", LEARNED)
def test_a_class_that_training_never_saw_never_wins(kind):
    """Class c is in fold 1 only. Where all cosines are negative, a score of zero for it would be the best."""
    labels, folds = ["a", "b"] * 5 + ["c"] * 2, [1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 1, 1]
    data, negative = hand_made(labels, folds), False
    first = np.array(folds) == 1
    for seed in range(20 if kind == "centroids" else 2):
        embeddings = torch.from_numpy(np.random.default_rng(seed).standard_normal((12, 3)) + 1)
        scores = fit(kind, embeddings, data).scores(embeddings)
        assert (scores[first].argmax(1) != 2).all()
        assert scores.isfinite().all()
        negative |= bool((scores[first][:, :2] < 0).all(1).any())
        assert (margins(scores.numpy(), data.targets)[-2:] < 0).all()
    assert negative or kind != "centroids", "no clip was against all classes, so the test proves nothing"


def test_two_classes_have_opposite_scores_whose_difference_is_the_decision():
    labels = ["a", "b"] * 15
    x = F.normalize(blobs(labels), dim=-1)
    targets = torch.tensor([0, 1] * 15)
    weight, bias, strength = fit_probe(x, targets, 2)
    theirs = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=2000)).fit(x.numpy(), targets.numpy())
    scores = x @ weight.T + bias
    np.testing.assert_allclose(scores[:, 1] - scores[:, 0], theirs.decision_function(x.numpy()), rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(weight[0], -weight[1])


def test_one_training_class_always_wins():
    weight, bias, strength = fit_probe(torch.randn(5, 3), torch.full((5,), 1), 3)
    assert np.isnan(strength)
    assert not weight.any()
    assert bias.tolist() == [NEVER, 0.0, NEVER]


def test_a_class_with_few_clips_takes_the_middle_strength():
    *_, strength = fit_probe(torch.randn(9, 3), torch.tensor([0] * 7 + [1] * 2), 2)
    assert strength == 1.0


def test_an_entry_that_never_varies_has_no_weight():
    x = torch.randn(30, 4, dtype=torch.float64)
    x[:, 2] = 0.25
    weight, bias, _ = fit_probe(x, torch.arange(30) % 3, 3)
    assert weight.isfinite().all()
    assert bias.isfinite().all()
    torch.testing.assert_close(weight[:, 2], torch.zeros(3, dtype=torch.float64), atol=1e-8, rtol=0)


@pytest.mark.parametrize("kind", LEARNED)
def test_one_fold_is_not_enough(kind):
    with pytest.raises(EvaluationError, match="at least two folds"):
        fit(kind, torch.randn(6, 3), hand_made(["a", "b"] * 3, [1] * 6))


def test_margins_equal_a_loop():
    rng = np.random.default_rng(0)
    scores, targets = rng.standard_normal((3, 20, 5)).round(1), rng.integers(0, 5, 20)
    margin = margins(scores, targets)
    assert margin.shape == (3, 20)
    for unit in range(3):
        for clip, target in enumerate(targets):
            others = [s for c, s in enumerate(scores[unit, clip]) if c != target]
            assert margin[unit, clip] == scores[unit, clip, target] - max(others)
        # A tie has no margin, and counts as wrong.
        np.testing.assert_array_equal(margin[unit] > 0, outcome(scores[unit], targets).correct)


def test_margins_keep_their_digits_beside_a_class_that_never_wins():
    scores = np.array([[0.123456789, NEVER]], dtype=np.float32)
    assert margins(scores, np.array([1]))[0] - NEVER == pytest.approx(-0.123456789, rel=1e-6)


def test_intervals_of_many_columns_are_those_of_each():
    values = np.random.default_rng(0).standard_normal((40, 6)).round(2)
    value, low, high = mean_intervals(values, seed=4)
    for column in range(6):
        assert mean_interval(values[:, column], seed=4) == pytest.approx((value[column], low[column], high[column]), rel=1e-12)
    assert ((low <= value) & (value <= high)).all()


def test_linear_is_the_loop_of_the_report():
    """A torch module trained for five epochs of Adam at 0.01 on the same batches; 25,650 numbers for 512 × 50."""
    rng = np.random.default_rng(2)
    unit = F.normalize(torch.from_numpy(rng.standard_normal((200, 512))).float(), dim=-1)
    targets = torch.from_numpy(rng.integers(0, 50, 200))
    found = CLASSIFIERS["linear"].fit(Examples(unit, targets, 50, list(range(200)), seed=3)).scorer
    module = torch.nn.Linear(512, 50)
    torch.nn.init.zeros_(module.weight)
    torch.nn.init.zeros_(module.bias)
    optimiser, generator = torch.optim.Adam(module.parameters(), lr=0.01), torch.Generator().manual_seed(3)
    for _ in range(5):
        for rows in torch.randperm(200, generator=generator).split(64):
            optimiser.zero_grad()
            F.cross_entropy(module(unit[rows]), targets[rows]).backward()
            optimiser.step()
    assert found.trained == sum(p.numel() for p in module.parameters()) == 25_650
    seen = torch.bincount(targets, minlength=50) > 0
    torch.testing.assert_close(found.scores(unit)[:, seen], module(unit)[:, seen].detach(), rtol=1e-4, atol=1e-5)
    assert (found.scores(unit)[:, ~seen] < -1000).all(), "a class without clips never wins"
