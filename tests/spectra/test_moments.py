"""Streaming against one-shot; ours against scikit-learn's."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from residual_audio.spectra import Moments, principal_axes


def cloud(rows: int = 500, units: int = 3, d: int = 6) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    mixed = torch.randn(rows, units, d, generator=generator) @ torch.randn(d, d, generator=generator)
    return (mixed + 5.0).float()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 120), min_size=1, max_size=9), st.randoms(use_true_random=False))
def test_any_batches_in_any_order_equal_one_shot(sizes, random):
    rows = cloud(sum(sizes))
    parts = [Moments.of(part) for part in rows.split(sizes)]
    random.shuffle(parts)
    merged = sum(parts[1:], start=parts[0])
    assert torch.equal(merged.count, torch.full((3,), len(rows)))
    if len(rows) > 1:
        expected = np.stack([np.cov(rows[:, u].double().numpy().T) for u in range(3)])
        assert np.allclose(merged.covariance.numpy(), expected, rtol=1e-10, atol=1e-10)


def test_pca_equals_scikit_learn():
    rows = cloud(2000)
    basis = principal_axes(Moments.of(rows))
    for u in range(3):
        theirs = PCA().fit(rows[:, u].double().numpy())
        assert np.allclose(basis.variance[u], theirs.explained_variance_, rtol=1e-8)
        assert np.allclose(basis.mean[u], theirs.mean_)
        assert np.allclose(np.abs((basis.axes[u].numpy() * theirs.components_).sum(1)), 1, atol=1e-8)


def test_signs_are_fixed():
    basis = principal_axes(Moments.of(cloud()))
    assert (basis.axes.gather(-1, basis.axes.abs().argmax(-1, keepdim=True)) > 0).all()
    assert torch.allclose(basis.axes @ basis.axes.mT, torch.eye(6, dtype=torch.float64).expand(3, 6, 6), atol=1e-10)


def test_a_large_mean_does_not_drown_a_small_variance():
    """float32 products would lose this spread entirely."""
    rows = (1000 + 0.01 * torch.randn(4000, 1, 2, dtype=torch.float64)).double()
    covariance = Moments.of(rows).covariance[0]
    assert torch.diagonal(covariance).tolist() == pytest.approx([1e-4, 1e-4], rel=0.1)


def test_storage_round_trip():
    moments = Moments.of(cloud())
    again = Moments.from_tensors(moments.tensors("x"), "x")
    assert torch.equal(moments.second, again.second)
    assert torch.equal((Moments.empty(3, 6) + moments).total, moments.total)
