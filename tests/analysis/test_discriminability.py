"""Ours against slow loops and scikit-learn's ANOVA; invariants of scatter; degenerate cases."""

from itertools import permutations

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_selection import f_classif
from torch.testing import assert_close

from residual_audio.analysis import discriminability
from residual_audio.analysis.discriminability import class_counts, class_means, component_fisher, fisher_p_value, fisher_ratio
from residual_audio.spectra import Moments, principal_axes

CLASSES = 5


def labelled(clips: int = 200, heads: int = 4, d: int = 6, apart: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Unequal classes; class 3 has no clips; the heads separate the classes from not at all (head 0) to well."""
    g = torch.Generator().manual_seed(1)
    targets = torch.tensor([0, 0, 0, 0, 1, 1, 2, 4])[torch.randint(8, (clips,), generator=g)]
    centres = torch.randn(CLASSES, heads, d, generator=g, dtype=torch.float64) * apart * torch.arange(heads)[:, None]
    noise = torch.randn(clips, heads, d, generator=g, dtype=torch.float64) @ torch.randn(d, d, generator=g, dtype=torch.float64)
    return centres[targets] + noise + 10.0, targets


def scatter(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The definition, clip by clip."""
    d = x.shape[1]
    between, within = np.zeros((d, d)), np.zeros((d, d))
    for c in sorted(set(y.tolist())):
        own = x[y == c]
        between += len(own) * np.outer(own.mean(0) - x.mean(0), own.mean(0) - x.mean(0))
        for row in own:
            within += np.outer(row - own.mean(0), row - own.mean(0))
    return between, within


def test_fisher_equals_the_definition():
    x, targets = labelled()
    ours = fisher_ratio(x, targets, CLASSES)
    for h in range(4):
        between, within = scatter(x[:, h].numpy(), targets.numpy())
        assert float(ours[h]) == pytest.approx(np.trace(between) / np.trace(within), rel=1e-10)
    assert (ours.diff() > 0).all()


def test_within_and_between_add_up_to_the_total():
    x, targets = labelled()
    within, between = discriminability._deviations(x, targets, CLASSES)
    total = x - x.mean(0)
    outer = [torch.einsum("nhd,nhe->hde", rows, rows) for rows in (within, between, total)]
    assert_close(outer[0] + outer[1], outer[2])
    theirs = scatter(x[:, 2].numpy(), targets.numpy())
    assert np.allclose(outer[1][2], theirs[0])
    assert np.allclose(outer[0][2], theirs[1])


def test_components_equal_anova():
    """F of ANOVA = ratio · (n − k)/(k − 1), for coordinates and for principal axes."""
    x, targets = labelled()
    k = len(targets.unique())
    basis = principal_axes(Moments.of(x))
    for axes in (torch.eye(6, dtype=torch.float64).expand(4, 6, 6), basis.axes):
        ours = component_fisher(x, axes, targets, CLASSES) * (len(x) - k) / (k - 1)
        for h in range(4):
            theirs, _ = f_classif((x[:, h] @ axes[h].mT).numpy(), targets.numpy())
            assert np.allclose(ours[h], theirs, rtol=1e-8)


def test_no_axis_beats_the_first_discriminant():
    """scikit-learn's LDA finds the direction of the largest ratio; along it ours is its eigenvalue."""
    x, targets = labelled()
    for h in range(4):
        lda = LinearDiscriminantAnalysis(solver="eigen").fit(x[:, h].numpy(), targets.numpy())
        axis = torch.from_numpy(lda.scalings_[:, :1].T.copy())[None]
        best = float(component_fisher(x[:, h : h + 1], axis, targets, CLASSES))
        between, within = scatter(x[:, h].numpy(), targets.numpy())
        assert best == pytest.approx(np.linalg.eigvals(np.linalg.solve(within, between)).real.max(), rel=1e-6)
        assert best >= float(fisher_ratio(x[:, h : h + 1], targets, CLASSES))


def test_what_does_not_matter():
    """Order of clips, names of classes, more classes without clips, shift, scale and rotation of a head, float32 input."""
    x, targets = labelled()
    expected = fisher_ratio(x, targets, CLASSES)
    order = torch.randperm(len(x))
    turn = torch.linalg.qr(torch.randn(4, 6, 6, dtype=torch.float64)).Q
    assert_close(fisher_ratio(x[order], targets[order], CLASSES), expected)
    assert_close(fisher_ratio(x, 4 - targets, CLASSES), expected)
    assert_close(fisher_ratio(x, targets, CLASSES + 7), expected)
    assert_close(fisher_ratio(torch.einsum("nhd,hde->nhe", 100 * x - 3, turn), targets, CLASSES), expected)
    assert_close(fisher_ratio(x.float(), targets.int(), CLASSES), expected, rtol=1e-5, atol=0)
    axes = principal_axes(Moments.of(x)).axes
    assert_close(component_fisher(x @ turn[0], axes @ turn[0], targets, CLASSES), component_fisher(x, axes, targets, CLASSES))
    assert_close(component_fisher(x, -2 * axes, targets, CLASSES), component_fisher(x, axes, targets, CLASSES))


def test_labels_that_say_nothing_give_the_chance_level():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(400, 300, 4, generator=g)
    ratio = fisher_ratio(x, torch.arange(400) % 20, 20)
    assert float(ratio.mean()) == pytest.approx(19 / 380, rel=0.05)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_head_that_does_not_vary_has_no_ratio(dtype):
    x, targets = labelled()
    x = x.to(dtype)
    x[:, 1] = torch.tensor([0.1, 1e3, -7.7, 0.0, 3.3, 1 / 3]).to(dtype)
    x[0, 1] = x[0, 1] * (1 + torch.finfo(dtype).eps)
    axes = principal_axes(Moments.of(x)).axes
    for result in (fisher_ratio(x, targets, CLASSES), fisher_p_value(x, targets, CLASSES, 9), component_fisher(x, axes, targets, CLASSES)):
        assert result[1].isnan().all()
        assert result[[0, 2, 3]].isfinite().all()


def test_silent_head():
    x, targets = labelled()
    x[:, 0] = 0.0
    assert fisher_ratio(x, targets, CLASSES).isnan().tolist() == [True, False, False, False]


def test_no_scatter_within_classes_is_infinite():
    x, targets = labelled()
    x[:, 2] = torch.randn(CLASSES, 6, dtype=torch.float64)[targets] / 3 + 5
    axes = principal_axes(Moments.of(x)).axes
    assert fisher_ratio(x, targets, CLASSES).isinf().tolist() == [False, False, True, False]
    along = component_fisher(x, axes, targets, CLASSES)[2]
    assert along[:3].isposinf().all(), "four classes span three axes"
    assert along[3:].isnan().all(), "and nothing varies along the others"
    assert fisher_p_value(x, targets, CLASSES, 19)[2] == pytest.approx(1 / 20)


def test_axes_of_a_rank_deficient_head():
    """Two dimensions of six: the other axes carry rounding only, and rounding is not discriminable."""
    x, targets = labelled()
    x[:, 3] = x[:, 3, :2] @ torch.randn(2, 6, dtype=torch.float64) + 50
    along = component_fisher(x, principal_axes(Moments.of(x)).axes, targets, CLASSES)[3]
    assert along[:2].isfinite().all()
    assert along[2:].isnan().all()


def test_one_class_cannot_be_told_apart():
    x, _ = labelled()
    targets = torch.full((len(x),), 2)
    axes = principal_axes(Moments.of(x)).axes
    assert fisher_ratio(x, targets, CLASSES).isnan().all()
    assert component_fisher(x, axes, targets, CLASSES).isnan().all()
    assert fisher_p_value(x, targets, CLASSES, 9).isnan().all()


@pytest.mark.parametrize("wrong", [-1, CLASSES])
def test_a_target_outside_the_classes_is_an_error(wrong):
    x, targets = labelled()
    targets[7] = wrong
    with pytest.raises(ValueError, match="5 classes are numbered 0 to 4"):
        fisher_ratio(x, targets, CLASSES)


def test_means_of_classes():
    x, targets = labelled()
    means = class_means(x, targets, CLASSES)
    assert class_counts(targets, CLASSES).tolist() == [int((targets == c).sum()) for c in range(CLASSES)]
    assert means[3].isnan().all()
    for c in (0, 1, 2, 4):
        assert_close(means[c], x[targets == c].mean(0))


def test_p_value_against_all_permutations():
    x = torch.tensor([0.0, 1.0, 5.0, 2.0, 9.0, 7.0], dtype=torch.float64).reshape(6, 1, 1)
    targets = torch.tensor([0, 0, 0, 1, 1, 1])
    observed = float(fisher_ratio(x, targets, 2))
    every = [float(fisher_ratio(x, targets[list(order)], 2)) for order in permutations(range(6))]
    exact = np.mean([f >= observed * (1 - 1e-9) for f in every])
    assert float(fisher_p_value(x, targets, 2, permutations=4000)) == pytest.approx(exact, abs=0.02)


def test_p_values_are_uniform_when_labels_say_nothing():
    x = torch.randn(90, 400, 2, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([0, 0, 1, 2, 2, 2, 4, 4, 4] * 10)
    assert kstest(fisher_p_value(x, targets, CLASSES, 199), "uniform").pvalue > 0.01


def test_p_value_is_small_where_classes_differ_and_seeded():
    x, targets = labelled()
    first = fisher_p_value(x, targets, CLASSES, 99, seed=3)
    assert torch.equal(first, fisher_p_value(x, targets, CLASSES, 99, seed=3))
    assert first[2:].tolist() == [0.01, 0.01]
    assert float(first[0]) > 0.05


def test_p_values_do_not_depend_on_the_blocks(monkeypatch):
    x, targets = labelled()
    expected = fisher_p_value(x, targets, CLASSES, 50)
    monkeypatch.setattr(discriminability, "HEADS_AT_ONCE", 3)
    monkeypatch.setattr(discriminability, "ORDERS_AT_ONCE", 7)
    assert torch.equal(fisher_p_value(x, targets, CLASSES, 50), expected)
