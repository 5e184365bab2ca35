"""Our measures against scikit-learn's and scipy's."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, balanced_accuracy_score, confusion_matrix, top_k_accuracy_score

from residual_audio.evaluation.metrics import confusion, macro, outcome, per_class_mean, top_k
from residual_audio.evaluation.significance import macro_interval, mean_interval


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    targets = rng.integers(0, 7, 300)
    scores = rng.standard_normal((300, 7))
    scores[np.arange(300), targets] += 1.0
    return scores, targets


def test_accuracy_confusion_and_top_k(case):
    scores, targets = case
    result = outcome(scores, targets)
    assert result.correct.mean() == pytest.approx(accuracy_score(targets, scores.argmax(1)))
    assert (result.predicted == scores.argmax(1)).all()
    assert top_k(result, 3).mean() == pytest.approx(top_k_accuracy_score(targets, scores, k=3))
    assert (confusion(result) == confusion_matrix(targets, scores.argmax(1))).all()
    assert macro(result.correct, targets, 7) == pytest.approx(balanced_accuracy_score(targets, scores.argmax(1)))


def test_a_constant_classifier_gets_nothing():
    result = outcome(np.zeros((10, 4)), np.arange(10) % 4)
    assert not result.correct.any()
    assert not top_k(result, 3).any()
    assert (result.predicted != result.targets).all()


def test_a_class_without_clips_does_not_count():
    means = per_class_mean(np.array([1, 0, 1]), np.array([0, 0, 2]), 3)
    assert means[0] == 0.5
    assert np.isnan(means[1])
    assert macro(np.array([1, 0, 1]), np.array([0, 0, 2]), 3) == 0.75


def test_bootstrap_agrees_with_scipy():
    values = np.random.default_rng(1).random(200) < 0.7
    ours = mean_interval(values)
    theirs = stats.bootstrap((values.astype(float),), np.mean, method="percentile", n_resamples=4000, rng=0).confidence_interval
    assert ours.value == values.mean()
    assert ours.low == pytest.approx(theirs.low, abs=0.012)
    assert ours.high == pytest.approx(theirs.high, abs=0.012)
    assert ours == mean_interval(values)
    assert ours != mean_interval(values, seed=1)


def test_macro_interval_agrees_with_a_slow_loop(case):
    scores, targets = case
    correct = outcome(scores, targets).correct
    rng = np.random.default_rng(5)
    slow = []
    for _ in range(1000):
        rows = rng.integers(0, len(targets), len(targets))
        slow.append(macro(correct[rows], targets[rows], 7))
    ours = macro_interval(correct, targets, 7)
    assert ours.value == pytest.approx(macro(correct, targets, 7))
    assert (ours.low, ours.high) == pytest.approx(tuple(np.quantile(slow, [0.025, 0.975])), abs=0.01)


def test_certainty_has_no_width():
    assert mean_interval(np.ones(5)) == (1.0, 1.0, 1.0)
