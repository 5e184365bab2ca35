"""Ours against scikit-learn's cosine, explicit covariances and n×n Gram matrices; what must not matter does not; planted pairs."""

import numpy as np
import pytest
import torch
from sklearn.metrics.pairwise import cosine_similarity
from torch.testing import assert_close

from residual_audio.analysis import similarity
from residual_audio.analysis.similarity import (
    covariance_similarity,
    fingerprints,
    linear_cka,
    rounding_floor,
    spectrum_similarity,
    subspace_similarity,
    within_between,
)
from residual_audio.spectra import Moments, principal_axes


def heads(clips: int = 300, count: int = 5, d: int = 6, seed: int = 0) -> torch.Tensor:
    """Heads with different spectra and directions, partly about the same things, off the origin."""
    g = torch.Generator().manual_seed(seed)
    common = torch.randn(clips, 1, d, generator=g, dtype=torch.float64)
    own = torch.randn(clips, count, d, generator=g, dtype=torch.float64) * torch.rand(count, d, generator=g, dtype=torch.float64)
    mix = torch.randn(count, d, d, generator=g, dtype=torch.float64)
    return torch.einsum("nhd,hde->nhe", common + own, mix) + 3.0


def rotation(d: int, seed: int = 0) -> torch.Tensor:
    return torch.linalg.qr(torch.randn(d, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)).Q


def subspaces(x: torch.Tensor) -> torch.Tensor:
    basis = principal_axes(Moments.of(x))
    return subspace_similarity(basis.axes, basis.variance)


def spectra(x: torch.Tensor) -> torch.Tensor:
    return spectrum_similarity(principal_axes(Moments.of(x)).variance)


MEASURES = pytest.mark.parametrize("measure", [spectra, subspaces, linear_cka])


def test_spectra_equal_scikit_learn():
    variance = principal_axes(Moments.of(heads())).variance
    assert np.allclose(spectrum_similarity(variance), cosine_similarity(variance.numpy()))
    assert np.allclose(spectrum_similarity(variance), cosine_similarity(fingerprints(variance).numpy()))
    assert_close(fingerprints(variance).sum(1), torch.ones(5, dtype=torch.float64))


def test_subspaces_equal_explicit_covariances():
    x = heads()
    covariances = [np.cov(x[:, h].numpy().T) for h in range(5)]
    expected = [[np.sum(a * b) / np.linalg.norm(a) / np.linalg.norm(b) for b in covariances] for a in covariances]
    assert np.allclose(subspaces(x), expected, atol=1e-12)
    assert np.allclose(covariance_similarity(Moments.of(x).covariance), expected, atol=1e-12)


def test_subspaces_equal_the_sum_over_pairs_of_axes():
    basis = principal_axes(Moments.of(heads()))
    axes, variance = basis.axes[:, :3].float(), basis.variance[:, :3].float()  # the leading axes alone, in the type a user may have
    ours = subspace_similarity(axes, variance)
    for a in range(5):
        for b in range(5):
            total = sum(float(variance[a, i] * variance[b, j]) * float(axes[a, i] @ axes[b, j]) ** 2 for i in range(3) for j in range(3))
            assert float(ours[a, b]) == pytest.approx(total / float(variance[a].norm() * variance[b].norm()), rel=1e-5)


def test_cka_equals_gram_matrices():
    x = heads(60)
    centre = np.eye(60) - 1 / 60
    grams = [centre @ x[:, h].numpy() @ x[:, h].numpy().T @ centre for h in range(5)]
    expected = [[np.trace(a @ b) / np.sqrt(np.trace(a @ a) * np.trace(b @ b)) for b in grams] for a in grams]
    assert np.allclose(linear_cka(x), expected, atol=1e-12)


@MEASURES
def test_symmetric_with_ones_on_the_diagonal(measure):
    similar = measure(heads())
    assert torch.equal(similar, similar.mT)
    assert torch.equal(similar.diagonal(), torch.ones(5, dtype=torch.float64))
    assert (similar >= 0).all()
    assert (similar <= 1).all()
    assert float(similar.min()) < 0.95, "nothing to tell apart: the test says little"


@MEASURES
def test_what_does_not_matter(measure):
    """The order of the clips, shift and scale of a head, a rotation of the space that all heads share."""
    x = heads()
    scale = torch.tensor([0.01, 1.0, 7.0, 300.0, 2.0])[:, None]
    expected = measure(x)
    assert_close(measure(x[torch.randperm(300)]), expected)
    assert_close(measure(x * scale - 5.0), expected)
    assert_close(measure(x @ rotation(6)), expected)


def test_rotating_one_head_matters_to_subspaces_only():
    x = heads()
    turned = x.clone()
    turned[:, 2] = turned[:, 2] @ rotation(6)
    assert_close(spectra(turned), spectra(x))
    assert_close(linear_cka(turned), linear_cka(x))
    assert (subspaces(turned) - subspaces(x)).abs().max() > 0.05


def test_equal_spectra_in_orthogonal_subspaces():
    variance = torch.tensor([[3.0, 1.0], [3.0, 1.0], [30.0, 10.0]], dtype=torch.float64)
    e = torch.eye(4, dtype=torch.float64)
    axes = torch.stack([e[:2], e[2:], e[:2]])
    assert_close(spectrum_similarity(variance), torch.ones(3, 3, dtype=torch.float64))
    expected = torch.tensor([[1, 0, 1], [0, 1, 0], [1, 0, 1]], dtype=torch.float64)
    assert torch.equal(subspace_similarity(axes, variance), expected)


def test_axes_of_equal_variance_may_turn_among_themselves():
    e, turn = torch.eye(5, dtype=torch.float64), rotation(3)
    variance = torch.tensor([[2.0, 2.0, 2.0], [1.0, 0.5, 0.1]], dtype=torch.float64)
    other = rotation(5, seed=4)[:3]
    straight, turned = (subspace_similarity(torch.stack([axes, other]), variance) for axes in (e[:3], turn @ e[:3]))
    assert_close(straight, turned)


def test_random_orientations_are_where_the_docstring_says():
    variance = torch.tensor([[5.0, 2.0, 1.0, 0.1], [1.0, 0.8, 0.3, 0.2]], dtype=torch.float64)
    ratio = variance.sum(1) ** 2 / variance.square().sum(1)
    axes = torch.linalg.qr(torch.randn(400, 4, 4, dtype=torch.float64)).Q
    drawn = subspace_similarity(axes, variance.repeat_interleave(200, 0))[:200, 200:]
    assert float(drawn.mean()) == pytest.approx(float(ratio.prod().sqrt() / 4), rel=0.02)


def test_cka_between_a_head_and_a_noisy_copy_falls_with_the_noise():
    x = heads(count=1)
    noise = heads(count=1, seed=7) - 3.0
    similar = linear_cka(torch.cat([x, x + 1.0 * noise, x + 5.0 * noise, noise], 1))[0]
    assert (similar.diff() < 0).all()
    assert float(similar[-1]) < 0.1


@MEASURES
def test_more_heads_than_one_block(measure, monkeypatch):
    x = heads()
    expected = measure(x)
    for block in (1, 2, 4):
        monkeypatch.setattr(similarity, "AT_ONCE", block)
        assert_close(measure(x), expected)


@MEASURES
def test_rank_deficient_heads(measure):
    x = heads()
    x[:, 1] = x[:, 1, :1] * torch.arange(1.0, 7.0)
    similar = measure(x)
    assert similar.isfinite().all()
    assert (similar <= 1).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_head_that_does_not_vary_is_undefined(dtype):
    x = heads().to(dtype)
    x[:, 3] = torch.tensor([0.1, 1e3, -7.7, 0.0, 3.3, 1 / 3]).to(dtype)
    x[0, 3] = x[0, 3] * (1 + torch.finfo(dtype).eps)  # not bit for bit the same, as after a matrix product
    basis = principal_axes(Moments.of(x))
    variance = basis.variance.masked_fill(basis.variance <= rounding_floor(x)[:, None], 0.0)
    undefined = torch.zeros(5, 5, dtype=torch.bool)
    undefined[3], undefined[:, 3] = True, True
    for similar in (spectrum_similarity(variance), subspace_similarity(basis.axes, variance), linear_cka(x)):
        assert torch.equal(similar.isnan(), undefined)


def test_the_floor_is_far_below_small_but_real_variance():
    x = 1000 + 0.01 * torch.randn(2000, 1, 4)
    assert float(rounding_floor(x)) < 0.01 * 4 * 0.01**2


def test_within_and_between_stages():
    similar = torch.tensor([[1.0, 0.9, 0.2, 0.4], [0.0, 1.0, torch.nan, 0.6], [0.0, 0.0, 1.0, 0.7], [0.0, 0.0, 0.0, 1.0]])
    result = within_between(similar, torch.tensor([0, 0, 1, 1]))  # the lower triangle is not looked at
    assert result.within == pytest.approx(0.8)
    assert result.between == pytest.approx(0.4)
    assert result.ratio == pytest.approx(2.0)
    assert result.defined_pairs == 5


def test_no_pair_between_stages():
    similar = torch.tensor([[1.0, 0.5, torch.nan], [0.5, 1.0, torch.nan], [torch.nan, torch.nan, 1.0]])
    result = within_between(similar, torch.tensor([0, 0, 1]))
    assert result.within == 0.5
    assert np.isnan([result.between, result.ratio]).all()
    assert result.defined_pairs == 1
