"""Methods against each other: the corrected test, equivalence, Holm, and all pairs in one table."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from residual_audio.evaluation.paired import COLUMNS, against_first, corrected_t, equivalence, holm, paired_table
from residual_audio.evaluation.significance import mean_interval

FOLDS = np.arange(100) % 5


def test_the_corrected_test():
    """By hand, from the formula; and less sure than the plain paired t."""
    d = np.array([0.1, 0.12, 0.05, 0.2, 0.09])
    t, p = corrected_t(d)
    expected = d.mean() / np.sqrt((1 / 5 + 0.25) * d.var(ddof=1))
    assert t == pytest.approx(expected)
    assert p == pytest.approx(2 * stats.t.sf(expected, 4))
    assert p > stats.ttest_1samp(d, 0).pvalue
    assert corrected_t(d, np.full(5, 20.0)) == pytest.approx((t, p)), "folds of one size weigh alike"


@pytest.mark.parametrize("differences", [[0.0] * 5, [0.1] * 5, [0.3]])
def test_folds_that_do_not_differ_give_no_p(differences):
    assert np.isnan(corrected_t(np.array(differences))).all()
    assert np.isnan(equivalence(np.array(differences), 0.02))


def test_equivalence_is_two_one_sided_tests():
    d = np.array([0.004, -0.002, 0.001, 0.003, -0.001])
    error = np.sqrt((1 / 5 + 0.25) * d.var(ddof=1))
    above, below = stats.t.sf((d.mean() + 0.02) / error, 4), stats.t.cdf((d.mean() - 0.02) / error, 4)
    assert equivalence(d, 0.02) == pytest.approx(max(above, below)) == pytest.approx(below)
    assert equivalence(d, 0.02) < 0.05 < equivalence(d, 0.003)
    assert equivalence(d + 0.05, 0.02) > 0.9, "a difference that is larger than the margin"


def test_holm_is_statsmodels():
    p = np.array([0.01, 0.04, 0.03, 0.2])
    np.testing.assert_allclose(holm(p), multipletests(p, method="holm")[1])
    assert np.isnan(holm(np.array([np.nan, 0.02]))[0])


def test_every_pair_once_those_with_the_baseline_first():
    rng = np.random.default_rng(0)
    groups = np.arange(100) // 4
    correct = {name: (rng.random(100) < share).astype(float) for name, share in (("a", 0.3), ("b", 0.8), ("c", 0.8), ("d", 0.5))}
    table = paired_table(correct, FOLDS, groups, margin=0.1)
    assert tuple(table) == COLUMNS
    pairs = list(zip(table.method, table.against, strict=True))
    assert pairs == [("b", "a"), ("c", "a"), ("d", "a"), ("c", "b"), ("d", "b"), ("d", "c")]
    np.testing.assert_allclose(table.p_holm, multipletests(table.p, method="holm")[1])
    for row in table.itertuples():
        difference = correct[row.method] - correct[row.against]
        assert (row.difference, row.low, row.high) == tuple(mean_interval(difference, groups))
        assert (row.t, row.p) == pytest.approx(corrected_t(pd.Series(difference).groupby(FOLDS).mean().to_numpy()))
    assert (table.margin == 0.1).all()
    assert (table.equivalent == (table.p_tost < 0.05)).all()
    assert list(against_first(table).index) == ["b", "c", "d"]
    alone = paired_table({"a": correct["a"]}, FOLDS)
    assert (len(alone), tuple(alone)) == (0, COLUMNS)
    assert len(against_first(alone)) == 0


def test_a_difference_and_its_t_are_means_over_clips_however_unequal_the_folds():
    """A large fold in which b is better, and two small ones in which it is worse: the mean over folds has the other sign."""
    folds = np.repeat([1, 2, 3], [80, 10, 10])
    b = np.concatenate([np.ones(80), np.zeros(20)])
    a = np.concatenate([np.repeat([0, 1], [8, 72]), np.repeat([1, 0, 1, 0], [7, 3, 6, 4])]).astype(float)
    table = paired_table({"a": a, "b": b}, folds)
    assert table.difference[0] == pytest.approx((b - a).mean()) == pytest.approx(-0.05)
    assert np.sign(table.t[0]) == np.sign(table.difference[0])
    assert table.low[0] <= table.difference[0] <= table.high[0]


def comparison_of_equals(rng, clips=100, folds=5, repeats=10, width=6):
    """Right or wrong ``[method, repeat, clip]`` of two nearest-centroid classifiers that see different features of equal worth, cross-
    validated; every repeat learns from another 95 % of the training clips and is tested on the same folds."""
    targets, fold = np.arange(clips) % 2, rng.permutation(np.arange(clips) % folds)
    features = [rng.standard_normal((clips, width)) + 0.35 * (2 * targets[:, None] - 1) for _ in range(2)]
    right = np.zeros((2, repeats, clips))
    for f in range(folds):
        train, test = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
        drawn = rng.random((repeats, len(train))).argsort(1) < 0.95 * len(train)
        for own, x in zip(right, features, strict=True):
            zero, one = ((drawn * (targets[train] == c)) for c in (0, 1))
            zero, one = (weights @ x[train] / weights.sum(1, keepdims=True) for weights in (zero, one))
            score = x[test] @ (one - zero).T - ((one**2).sum(1) - (zero**2).sum(1)) / 2
            own[:, test] = ((score > 0) == (targets[test] == 1)[:, None]).T
    return right, fold


def test_repeats_do_not_make_a_comparison_surer_than_it_is():
    """Methods of equal worth are told apart in at most 6 % of comparisons; with repeats as further samples it would be more."""
    rng = np.random.default_rng(0)
    averaged, as_samples = [], []
    for _ in range(600):
        right, fold = comparison_of_equals(rng)
        difference = right[1] - right[0]
        by_cell = np.array([[one[fold == f].mean() for f in range(5)] for one in difference])
        averaged.append(corrected_t(by_cell.mean(0))[1] < 0.05)
        cells = by_cell.ravel()
        t = cells.mean() / np.sqrt((1 / len(cells) + 0.25) * cells.var(ddof=1))
        as_samples.append(2 * stats.t.sf(abs(t), len(cells) - 1) < 0.05)
    assert np.mean(averaged) <= 0.06 < np.mean(as_samples)


def test_repeating_the_same_thing_changes_nothing():
    rng = np.random.default_rng(1)
    right, fold = comparison_of_equals(rng)
    once = paired_table({"a": right[0, 0], "b": right[1, 0]}, fold)
    often = paired_table({m: np.repeat(one[:1], 10, axis=0).mean(0) for m, one in zip("ab", right, strict=True)}, fold)
    pd.testing.assert_frame_equal(once, often)
