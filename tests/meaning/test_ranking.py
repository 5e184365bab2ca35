"""Rankings of heads by the class texts, and accuracy with the best k, against scipy and against going through it one by one."""

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr

from residual_audio.meaning.ranking import accuracy_by_kept, by_falling, greedy, margins, text_correlation, unit_correlation


@pytest.fixture
def shares():
    """Six units, four classes; units 1 and 4 know the class, the others do not."""
    rng = np.random.default_rng(0)
    targets = torch.from_numpy(rng.integers(4, size=80))
    scores = torch.from_numpy(rng.standard_normal((80, 6, 4))) + torch.from_numpy(rng.standard_normal((6, 4)))
    member = torch.nn.functional.one_hot(targets, 4).double()
    scores[:, 1] += 2.0 * member
    scores[:, 4] += 1.2 * member
    return scores, torch.from_numpy(0.1 * rng.standard_normal((80, 4))), targets


def test_correlations_are_scipys(shares):
    scores, _, targets = shares
    correlation = text_correlation(scores, targets)
    for u in range(6):
        for c in range(4):
            assert float(correlation[u, c]) == pytest.approx(pearsonr(scores[:, u, c], targets == c).statistic)
    member = torch.nn.functional.one_hot(targets, 4).double()

    def rest(x):
        x = x - x.mean(0)
        return (x - x.mean(1, keepdim=True)).flatten()

    for u, value in enumerate(unit_correlation(scores, targets)):
        assert float(value) == pytest.approx(pearsonr(rest(scores[:, u]), rest(member)).statistic)
    assert by_falling(unit_correlation(scores, targets))[:2].tolist() == [1, 4]


def test_margins_are_positive_where_the_class_wins(shares):
    scores, rest, targets = shares
    total = scores.sum(1) + rest
    ordered = np.sort(np.where(np.arange(4) == targets[:, None].numpy(), -np.inf, total.numpy()), axis=1)[:, -1]
    np.testing.assert_allclose(margins(total, targets), total.numpy()[np.arange(80), targets] - ordered)
    assert float(margins(torch.zeros(1, 3), torch.tensor([0]))[0]) == 0, "a tie is no win"


def slow_accuracy(scores, rest, means, kept, targets):
    total = rest.clone()
    for u in range(scores.shape[1]):
        total += scores[:, u] if u in kept else means[u]
    return float((total.argmax(1) == targets).double().mean())


def test_accuracy_by_kept_goes_from_none_to_all(shares):
    scores, rest, targets = shares
    order, means = torch.tensor([4, 0, 1, 5, 2, 3]), scores.mean(0)
    accuracy = accuracy_by_kept(scores, rest, means, order, targets)
    assert len(accuracy) == 7
    for k in range(7):
        assert float(accuracy[k]) == pytest.approx(slow_accuracy(scores, rest, means, set(order[:k].tolist()), targets))
    assert float(accuracy[-1]) == pytest.approx(float(((scores.sum(1) + rest).argmax(1) == targets).double().mean()))


def test_greedy_takes_the_best_next_unit(shares):
    scores, rest, targets = shares
    order = greedy(scores, rest, targets).tolist()
    assert sorted(order) == list(range(6))
    assert order[0] == 1
    means = scores.mean(0)
    for k in range(1, 4):
        reached = slow_accuracy(scores, rest, means, set(order[:k]), targets)
        assert reached == max(slow_accuracy(scores, rest, means, {*order[: k - 1], u}, targets) for u in range(6))
    best_pair = max(slow_accuracy(scores, rest, means, set(pair), targets) for pair in combinations(range(6), 2))
    assert slow_accuracy(scores, rest, means, set(order[:2]), targets) <= best_pair
    assert greedy(scores, rest, targets, 2).tolist() == order[:2]
