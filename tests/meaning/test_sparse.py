"""The non-negative lasso against scikit-learn's and scipy's, its optimality, and its exact split."""

import numpy as np
import pytest
from scipy.optimize import nnls
from sklearn.linear_model import Lasso

from residual_audio.meaning.sparse import lasso, nonnegative, sparse_code, split


def problem(seed: int, words: int = 40, d: int = 24):
    rng = np.random.default_rng(seed)
    dictionary = rng.standard_normal((words, d))
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    x = rng.uniform(0.2, 1.0, 4) @ dictionary[rng.choice(words, 4, replace=False)] + 0.1 * rng.standard_normal(d)
    return x / np.linalg.norm(x), dictionary


@pytest.mark.parametrize("seed", range(5))
def test_no_penalty_is_scipys_nnls(seed):
    x, words = problem(seed, words=20)
    expected, _ = nnls(words.T, x)
    assert np.abs(nonnegative(words @ words.T, words @ x) - expected).max() < 1e-8


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("penalty", [0.02, 0.1, 0.3])
def test_a_penalty_is_scikit_learns_lasso(seed, penalty):
    x, words = problem(seed)
    theirs = Lasso(alpha=penalty / len(x), positive=True, fit_intercept=False, tol=1e-12, max_iter=1_000_000).fit(words.T, x)
    ours = lasso(x, words, penalty)
    assert np.abs(ours.weights - theirs.coef_).max() < 1e-6
    left = x - ours.weights @ words
    assert ours.explained == pytest.approx(1 - left @ left)
    slope = words @ left - penalty  # optimal: no word could do better, and the chosen ones are at their best
    assert slope.max() < 1e-8
    assert np.abs(slope[ours.support]).max(initial=0.0) < 1e-8


def test_the_largest_penalty_leaves_nothing_and_so_does_a_sound_against_everything():
    x, words = problem(0)
    assert not len(lasso(x, words, float((words @ x).max()) + 1e-9).support)
    against = -np.abs(words).mean(0)
    code = sparse_code(against, np.abs(words), 5)
    assert not len(code.support)
    assert code.explained == 0


@pytest.mark.parametrize("most", [1, 3, 8])
def test_a_code_has_at_most_so_many_words_and_finds_those_that_were_mixed(most):
    x, words = problem(3)
    code = sparse_code(x, words, most)
    assert 0 < len(code.support) <= most
    assert (code.weights >= 0).all()
    assert (np.diff(code.weights[code.support]) <= 0).all()
    mixed = words[[5, 9]].sum(0)
    assert set(sparse_code(mixed, words, 2).support) == {5, 9}


def test_words_that_are_alike_do_not_break_it():
    x, words = problem(1)
    twice = np.concatenate([words, words])
    code = sparse_code(x, twice, 6)
    once = lasso(x, words, code.penalty)
    assert np.abs(code.weights[: len(words)] + code.weights[len(words) :] - once.weights).max() < 1e-8


def test_the_parts_of_a_sound_split_its_code_exactly():
    x, words = problem(2)
    rng = np.random.default_rng(0)
    parts = rng.standard_normal((7, len(x)))
    parts[-1] = x - parts[:-1].sum(0)
    code = sparse_code(x, words, 6)
    shares, penalty = split(code, parts, words)
    assert np.abs(shares.sum(0) + penalty - code.weights[code.support]).max() < 1e-10
    assert (penalty < 0).any()
