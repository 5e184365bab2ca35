"""Estimators against scikit-dimension, scikit-learn and the definitions, on data whose answer is known."""

import warnings

import numpy as np
import pytest
import skdim
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.datasets import make_blobs, make_swiss_roll

from residual_audio.analysis.dimension import estimate_dimensions, linear_dimensions
from residual_audio.analysis.jackknife import ratio_error, standard_error
from residual_audio.analysis.measures import dimension_measures, neighbour_measures, spectrum_measures
from residual_audio.analysis.measures.mle import mle_inverse
from residual_audio.analysis.measures.twonn import twonn, twonn_fit
from residual_audio.analysis.neighbours import Neighbours, neighbours
from residual_audio.spectra import Moments

LINEAR, NONLINEAR, MEASURES = ([m.name for m in some()] for some in (spectrum_measures, neighbour_measures, dimension_measures))


def sphere(n, d, rng):
    x = rng.standard_normal((n, d + 1))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def embedded(x, d, rng):
    """The same shape, turned into d dimensions."""
    q, _ = np.linalg.qr(rng.standard_normal((d, d)))
    return np.column_stack([x, np.zeros((len(x), d - x.shape[1]))]) @ q


def shapes():
    rng = np.random.default_rng(0)
    return {
        "blobs": embedded(make_blobs(600, 6, centers=4, random_state=0)[0], 24, rng),
        "swiss roll": embedded(make_swiss_roll(600, random_state=0)[0], 24, rng),
        "sphere": embedded(sphere(600, 3, rng), 24, rng),
        "gaussian": rng.standard_normal((600, 24)),
    }


def estimate(x, k=20):
    return estimate_dimensions(torch.from_numpy(x)[:, None], k)


@pytest.mark.parametrize("name", shapes())
@pytest.mark.parametrize("k", [5, 20])
def test_equal_to_scikit_dimension(name, k):
    x = shapes()[name]
    row = estimate(x, k).table.iloc[0]
    assert row.twonn_fit == pytest.approx(skdim.id.TwoNN().fit(x).dimension_, rel=1e-6)
    # scikit-dimension's maximum likelihood has n − 1 where the papers have n: a difference by design.
    unbiased = skdim.id.TwoNN(discard_fraction=0, method="mle").fit(x).dimension_
    assert row.twonn == pytest.approx(unbiased * len(x) / (len(x) - 1), rel=1e-6)
    assert row.mle_inverse == pytest.approx(skdim.id.MLE().fit(x, n_neighbors=k, comb="mle").dimension_, rel=1e-6)
    assert row.mle == pytest.approx(skdim.id.MLE().fit(x, n_neighbors=k, comb="mean").dimension_, rel=1e-6)
    assert (row.n, row.distinct, row.duplicates, row.k) == (600, 600, 0, k)


@pytest.mark.parametrize("d", [2, 5, 10])
def test_known_answer(d):
    """A d-dimensional Gaussian in 24: every measure near d. Nearest neighbours shrink the estimate a little in 10 dimensions (bias)."""
    rng = np.random.default_rng(d)
    row = estimate(embedded(rng.standard_normal((2000, d)), 24, rng)).table.iloc[0]
    assert row.pca_99 == d
    assert row.participation_ratio == pytest.approx(d, rel=0.05)
    assert row.effective_rank == pytest.approx(d, rel=0.05)
    for name in NONLINEAR:
        # Within ten per cent and four standard errors of d, and not above it by more than the errors.
        assert abs(row[name] - d) < 0.1 * d + 4 * row[f"{name}_se"], name
    assert row.l_n == pytest.approx(1, abs=0.2)


def test_neighbours_equal_all_distances():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((333, 7))
    full = np.sort(cdist(x, x), axis=1)[:, 1:12]
    np.testing.assert_allclose(neighbours(x, 11).distance, full, rtol=1e-10)


def test_near_duplicates_keep_their_digits():
    """Far from the origin and close to each other: the quick formula alone would lose them."""
    rng = np.random.default_rng(4)
    x = 1000 + rng.standard_normal((100, 5))
    x[50:] = x[:50] + 1e-7 * rng.standard_normal((50, 5))
    exact = np.sort(np.linalg.norm(x[:, None] - x[None], axis=-1), axis=1)[:, 1:4]
    near = neighbours(x, 3)
    assert near.duplicates == 0
    np.testing.assert_allclose(near.distance, exact, rtol=1e-6)


def test_duplicates_are_left_out_and_counted():
    rng = np.random.default_rng(5)
    x = rng.standard_normal((300, 4))
    twice = np.concatenate([x, x[:40], x[:10]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        row, plain = estimate(twice).table.iloc[0], estimate(x).table.iloc[0]
    assert (row.n, row.distinct, row.duplicates) == (350, 300, 50)
    for name in ("twonn", "mle", "mle_inverse"):
        assert row[name] == pytest.approx(plain[name], rel=1e-9)
    assert row.note == "50 duplicates left out"


@pytest.mark.parametrize("points", [np.full((50, 6), 2.5), np.tile([[0.0, 1, 2], [3, 4, 5]], (10, 1))])
def test_too_few_distinct_points(points):
    row = estimate(points).table.iloc[0]
    assert row[list(NONLINEAR)].isna().all()
    assert "distinct points: too few" in row.note
    if np.ptp(points) == 0:
        assert "constant: no spectrum" in row.note
        assert row[list(LINEAR)].isna().all()
    else:
        assert row.participation_ratio == pytest.approx(1)


def test_rank_deficient_and_lattice_data():
    rng = np.random.default_rng(6)
    row = estimate(rng.standard_normal((500, 2)) @ rng.standard_normal((2, 24))).table.iloc[0]
    assert row.pca_99 <= 2
    assert row.twonn == pytest.approx(2, rel=0.15)
    lattice = np.stack(np.meshgrid(*[np.arange(8.0)] * 3), -1).reshape(-1, 3)
    row = estimate(lattice, k=3).table.iloc[0]
    assert "all nearest neighbours equally far: no TwoNN" in row.note
    assert np.isnan(row.twonn)


def test_nothing_is_nan_without_a_reason():
    rng = np.random.default_rng(7)
    x = np.stack([rng.standard_normal((200, 5)), np.zeros((200, 5)), np.round(rng.standard_normal((200, 5)))], axis=1)
    table = estimate_dimensions(torch.from_numpy(x)).table
    for _, row in table.iterrows():
        assert row[list(MEASURES)].notna().all() or row.note
        assert np.isfinite(row[list(MEASURES)].dropna().astype(float)).all()


def test_fewer_points_than_neighbours():
    row = estimate(np.random.default_rng(8).standard_normal((10, 3)), k=20).table.iloc[0]
    assert row.k == 9
    assert np.isfinite(row.mle)


def test_errors_match_the_spread_of_repeats():
    """The standard error is about the standard deviation over independent samples."""
    rows = [estimate(np.random.default_rng(s).standard_normal((400, 4)), k=10).table.iloc[0] for s in range(60)]
    for name in ("twonn", "twonn_fit", "mle_inverse", "participation_ratio", "effective_rank", "evr_1"):
        spread = np.std([r[name] for r in rows], ddof=1)
        claimed = np.mean([r[f"{name}_se"] for r in rows])
        # Held neighbours make the local estimators look somewhat surer than they are.
        assert 0.5 < claimed / spread < 1.6, name


def test_jackknife_of_a_ratio_is_the_slow_one():
    terms = np.random.default_rng(9).gamma(2.0, size=50)
    slow = np.array([(len(terms) - 1) / np.delete(terms, i).sum() for i in range(len(terms))])
    assert ratio_error(1.0, terms) == pytest.approx(standard_error(slow), rel=1e-12)
    assert twonn(terms)[1] == pytest.approx(standard_error(slow), rel=1e-12)


def test_regression_form_is_least_squares():
    logs = np.random.default_rng(10).exponential(0.2, size=200)
    ordered = np.sort(logs)[:180]
    y = -np.log(1 - np.arange(1, 181) / 200)
    assert twonn_fit(logs)[0] == pytest.approx(np.linalg.lstsq(ordered[:, None], y, rcond=None)[0][0], rel=1e-10)


def test_token_level_has_spectra_only():
    rng = np.random.default_rng(11)
    x = torch.from_numpy(rng.standard_normal((500, 3, 6)))
    x[:, 2] = 4.0
    tokens, clips = linear_dimensions(Moments.of(x)), estimate_dimensions(x)
    np.testing.assert_allclose(tokens.table[list(LINEAR)], clips.table[list(LINEAR)], rtol=1e-9)
    assert tokens.table[list(NONLINEAR)].isna().all().all()
    assert tokens.table.note.str.startswith("neighbours need clip level").all()
    assert "constant" in tokens.table.note[2]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.01, 100), st.integers(5, 60))
def test_invariance(seed, scale, n):
    """Turning, moving and stretching the data changes no dimension; nor does the order of the clips."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 4)) * [1, 0.5, 0.2, 0.1]
    q, _ = np.linalg.qr(rng.standard_normal((4, 4)))
    moved = scale * (x @ q) + rng.standard_normal(4)
    a, b = estimate(x, 4).table.iloc[0], estimate(moved[rng.permutation(n)], 4).table.iloc[0]
    for name in ("participation_ratio", "effective_rank", "twonn", "twonn_fit", "mle", "mle_inverse"):
        assert a[name] == pytest.approx(b[name], rel=1e-6), name


def test_inverse_mean_of_equal_points_is_that_point():
    distance = np.tile([[1.0, 2.0, 4.0]], (5, 1))
    inverse = Neighbours(distance, 0).inverse
    assert mle_inverse(inverse)[0] == pytest.approx(2 / (np.log(4) + np.log(2)))


def test_threads_change_nothing():
    x = torch.from_numpy(np.random.default_rng(12).standard_normal((100, 6, 5)))
    np.testing.assert_array_equal(
        estimate_dimensions(x, threads=1).table[list(NONLINEAR)], estimate_dimensions(x, threads=4).table[list(NONLINEAR)]
    )
