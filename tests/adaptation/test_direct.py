"""Gains on direct shares: ones change nothing, a gain scales its own axis of its own unit, and nothing else."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from residual_audio.adaptation.direct import ShareBasis, ShareLearner


@pytest.fixture
def shares():
    torch.manual_seed(0)
    found = torch.randn(40, 3, 6, dtype=torch.float64) + 2
    found[:, 1, 4:] = 0  # a unit of rank 4
    return found


def test_axes_are_scikit_learns(shares):
    basis = ShareBasis.of(shares, None, None)
    assert torch.bincount(basis.unit).tolist() == [6, 4, 6]
    theirs = PCA().fit(shares[:, 2].numpy())
    ours = basis.axes[basis.unit == 2].numpy()
    np.testing.assert_allclose(np.abs((ours * theirs.components_).sum(1)), 1, atol=1e-8)
    assert ShareBasis.of(shares, 2, None).axes.shape == (6, 6)
    assert ShareBasis.of(shares, None, 0.5).start.unique().tolist() == [0, 1]


@pytest.mark.parametrize("mean", ["keep", "drop"])
def test_it_is_the_sum_over_units(shares, mean):
    """Against the formula, unit by unit and clip by clip; what is not adapted passes."""
    rest = torch.randn(40, 6, dtype=torch.float64)
    embeddings = rest + shares.sum(1)
    basis = ShareBasis.of(shares[:30], 3, None)
    gain = torch.rand(len(basis.axes), dtype=torch.float64) * 2
    found = ShareLearner(basis, embeddings, shares, mean, gain).embed(np.arange(40))
    for clip in (0, 35):
        expected = rest[clip].clone()
        for unit in range(3):
            mine = basis.unit == unit
            z = shares[clip, unit] - basis.mean[unit]
            along = basis.axes[mine] @ z
            expected += z - basis.axes[mine].T @ along + basis.axes[mine].T @ (gain[mine] * along)
            if mean == "keep":
                expected += basis.mean[unit]
        torch.testing.assert_close(found[clip], expected)


def test_ones_change_nothing_and_the_gradient_is_right(shares):
    embeddings = shares.sum(1)
    basis = ShareBasis.of(shares, None, None)
    learner = ShareLearner(basis, embeddings, shares)
    torch.testing.assert_close(learner.embed(np.arange(40)), embeddings)
    rows = np.array([3, 8])
    out = learner.forward(rows)
    direction = torch.randn_like(out)
    learner.backward(direction)
    step = 1e-6
    for axis in (0, 7, len(basis.axes) - 1):
        moved = torch.ones(len(basis.axes), dtype=torch.float64)
        moved[axis] += step
        change = (ShareLearner(basis, embeddings, shares, "keep", moved).embed(rows) - out) / step
        assert learner.gain.grad[axis].item() == pytest.approx((change * direction).sum().item(), rel=1e-4)
