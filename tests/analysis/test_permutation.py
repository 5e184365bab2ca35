"""Permutation p values against scipy, statsmodels and slow enumerations; simultaneous intervals against their nominal coverage."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.formula.api import ols

from residual_audio.analysis.permutation import arrangements, block_trend, correlation, partial_correlation
from residual_audio.analysis.simultaneous import simultaneous_means


@pytest.mark.parametrize("kind", ["spearman", "pearson"])
@pytest.mark.parametrize("n", [3, 4, 6, 7])
def test_few_pairs_have_an_exact_p(n, kind):
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal(n), np.round(rng.standard_normal(n), 1)
    test = {"spearman": stats.spearmanr, "pearson": stats.pearsonr}[kind]
    theirs = stats.permutation_test((x,), lambda a: test(a, y).statistic, permutation_type="pairings", n_resamples=np.inf)
    ours = correlation(x, y, kind)
    far = np.abs(theirs.null_distribution) >= abs(theirs.statistic) - 1e-9
    assert ours == pytest.approx((test(x, y).statistic, far.mean(), n))


def test_four_pairs_in_order_are_no_proof():
    assert correlation([1, 2, 3, 4], [10, 20, 30, 40], "spearman") == pytest.approx((1, 2 / 24, 4))
    assert block_trend(np.arange(24.0), np.repeat(np.arange(4.0), 6)).p == pytest.approx(2 / 24), "24 heads in 4 blocks are 4 samples"


def test_many_pairs_are_scipys():
    x, y = np.random.default_rng(0).standard_normal((2, 30))
    assert correlation(x, y, "spearman")[:2] == pytest.approx(tuple(stats.spearmanr(x, y)))


def test_pairs_that_are_not_complete_are_left_out():
    assert np.isnan(correlation([1, 1, 1, 1], [1, 2, 3, 4], "spearman").value)
    assert correlation([1, 2, np.nan, 4], [1, 2, 3, np.inf], "pearson").n == 2


def test_the_sample_holds_the_observed_order_and_is_the_same_every_time():
    orders = arrangements(12)
    assert orders.shape == (10_000, 12)
    assert orders[0].tolist() == list(range(12))
    assert (np.sort(orders, 1) == np.arange(12)).all()
    assert arrangements(12) is orders


@pytest.mark.parametrize("kind", ["spearman", "pearson"])
def test_partial_correlation_is_that_of_residuals_on_blocks(kind):
    rng = np.random.default_rng(1)
    depth = np.repeat(np.arange(5), 8)
    table = pd.DataFrame({"x": depth**2 + rng.standard_normal(40), "y": -3 * depth + rng.standard_normal(40), "depth": depth})
    if kind == "spearman":
        table[["x", "y"]] = table[["x", "y"]].rank()
    left = [ols(f"{v} ~ C(depth)", table).fit().resid for v in "xy"]
    ours = partial_correlation(table.x, table.y, table.depth, kind)
    assert ours.value == pytest.approx(np.corrcoef(*left)[0, 1])
    assert ours.n == 40
    assert ours.p > 0.05 > correlation(table.x, table.y, kind).p, "depth explains both"


def test_partial_correlation_permutes_within_blocks():
    x, y, depth = np.array([1.0, 2, 3, 8, 9, 7]), np.array([1.0, 3, 2, 7, 9, 8]), np.array([0, 0, 0, 1, 1, 2])
    ranks = [stats.rankdata(v) for v in (x, y)]
    a, b = ([r[:3] - r[:3].mean(), r[3:5] - r[3:5].mean()] for r in ranks)
    slow = np.array([a[0] @ b[0][list(p)] + a[1] @ b[1][list(q)] for p in permutations(range(3)) for q in permutations(range(2))])
    ours = partial_correlation(x, y, depth)
    assert ours.p == pytest.approx(np.mean(np.abs(slow) >= abs(slow[0]) - 1e-9))
    assert ours.n == 5, "a block of one head says nothing"
    assert np.isnan(partial_correlation([1, 2, 3], [3, 1, 2], [0, 1, 2]).value)


def test_type_one_errors_of_trends_over_blocks():
    """Heads of a block share a part: the plain p finds a trend in half of all null networks, the block p in one of twenty."""
    rng = np.random.default_rng(2)
    depth, plain, blocked = np.repeat(np.arange(6.0), 8), [], []
    for _ in range(300):
        values = np.repeat(rng.standard_normal(6), 8) + 0.5 * rng.standard_normal(48)
        plain.append(stats.spearmanr(depth, values).pvalue <= 0.05)
        blocked.append(block_trend(values, depth).p <= 0.05)
    assert np.mean(plain) > 0.3
    assert np.mean(blocked) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 300)


@pytest.mark.parametrize("size", [1, 5])
def test_simultaneous_intervals_cover_all_means_at_once(size):
    """60 units that share noise, 40 groups of 1 or 5 clips: all means inside in about 95 % of the samples; single intervals are not."""
    rng = np.random.default_rng(3)
    truth, inside, best_alone = np.linspace(-1, 1, 60), [], []
    for seed in range(200):
        shared = rng.standard_normal((40, 1, 1)) + rng.standard_normal((40, 1, 60))
        x = truth + (shared + rng.standard_normal((40, size, 60))).reshape(-1, 60)
        bounds = simultaneous_means(x, np.repeat(np.arange(40), size), resamples=400, seed=seed)
        inside.append(((bounds.low <= truth) & (truth <= bounds.high)).all())
        half = 1.96 * x.reshape(40, size, 60).mean(1).std(0, ddof=1) / np.sqrt(40)
        best_alone.append((np.abs(x.mean(0) - truth) <= half).all())
    assert 0.92 <= np.mean(inside) <= 0.985
    assert np.mean(best_alone) < 0.5


def test_simultaneous_p_and_units_that_do_not_vary():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((60, 5))
    x[:, 0], x[:, 1] = 0.0, x[:, 1] + 1.5
    bounds = simultaneous_means(x)
    assert np.isnan([bounds.low[0], bounds.high[0], bounds.p[0]]).all()
    assert bounds.p[1] == pytest.approx(1 / 2001)
    assert ((bounds.p[1:] <= 0.05) == ((bounds.low[1:] > 0) | (bounds.high[1:] < 0))).all()
    np.testing.assert_allclose(bounds.value, x.mean(0))
    alone = simultaneous_means(x[:, 1:2])
    assert alone.critical < bounds.critical
    assert np.isnan(simultaneous_means(x, np.zeros(60)).low).all(), "one group says nothing about groups"
