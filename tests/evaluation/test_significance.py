"""Do 95 % intervals hold the truth 95 times of 100? Simulated with the group sizes of real datasets; and small cases by hand."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from residual_audio.evaluation import significance
from residual_audio.evaluation.significance import (
    class_intervals,
    intraclass_correlation,
    macro_interval,
    mean_interval,
    mean_intervals,
    wilson_interval,
)

# Clips per recording in ESC-50 (1,524 recordings), and clips per instrument by family in a part of NSynth's test set (53 instruments).
ESC50 = np.repeat([1, 2, 3, 4, 5, 6, 7, 8], [1205, 230, 51, 23, 8, 2, 2, 3])
NSYNTH = {
    "bass": [10, 12, 16, 16, 22, 23, 24, 25, 30, 32],
    "brass": [26, 28, 30, 59, 67],
    "flute": [55, 125],
    "guitar": [10, 19, 30, 32, 33, 40, 46],
    "keyboard": [20, 22, 26, 27, 28, 28, 29, 30],
    "mallet": [43, 51, 108],
    "organ": [26, 29, 30, 34, 43, 48],
    "reed": [40, 50, 54, 66],
    "string": [30, 30, 34, 36, 37, 43],
    "vocal": [22, 119],
}
INSTRUMENTS = np.concatenate(list(NSYNTH.values()))
ALIKE = 0.5  # correlation of clips of one group in the simulations


def simulated(sizes, shares, draws, rng) -> tuple[np.ndarray, np.ndarray]:
    """Outcomes ``[clip, draw]`` of clips that are alike within groups (beta-binomial), and each clip's group."""
    strength = 1 / ALIKE - 1
    share = np.broadcast_to(shares, len(sizes))[:, None]
    by_group = rng.beta(share * strength, (1 - share) * strength, (len(sizes), draws))
    groups = np.repeat(np.arange(len(sizes)), sizes)
    return (rng.random((len(groups), draws)) < by_group[groups]).astype(float), groups


def covered(low, high, truth) -> float:
    return float(np.mean((low <= truth) & (truth <= high)))


@pytest.mark.parametrize(("sizes", "clips_alone"), [(ESC50, (0.80, 0.93)), (INSTRUMENTS, (0.15, 0.45))], ids=["ESC-50", "NSynth"])
def test_intervals_over_groups_hold_what_they_promise_and_those_over_clips_do_not(sizes, clips_alone):
    truth = 0.6
    values, groups = simulated(sizes, truth, 500, np.random.default_rng(0))
    _, low, high = mean_intervals(values, groups)
    assert 0.92 <= covered(low, high, truth) <= 0.98
    _, low, high = mean_intervals(values)
    assert clips_alone[0] <= covered(low, high, truth) <= clips_alone[1]


def test_paired_differences_over_groups_hold_what_they_promise():
    """Two classifiers that are right on the same instruments more often than not."""
    rng = np.random.default_rng(1)
    both, groups = simulated(INSTRUMENTS, 0.5, 400, rng)
    one, other = (np.where(rng.random(both.shape) < 0.3, simulated(INSTRUMENTS, p, 400, rng)[0], both) for p in (0.7, 0.4))
    _, low, high = mean_intervals(one - other, groups)
    assert 0.92 <= covered(low, high, 0.3 * (0.7 - 0.4)) <= 0.98


def test_few_groups_are_not_taken_for_certainty():
    """Eight groups: plain percentiles of the bootstrap hold the truth in about 90 of 100."""
    truth = 0.6
    values, groups = simulated([20] * 8, truth, 1000, np.random.default_rng(2))
    _, low, high = mean_intervals(values, groups)
    assert covered(low, high, truth) > 0.91


@pytest.mark.parametrize("sets", [[[1] * 8] * 50, list(NSYNTH.values())], ids=["8 clips per class", "NSynth"])
def test_intervals_by_class_hold_what_they_promise(sets):
    """Of classes of a few clips, or of a few groups."""
    rng = np.random.default_rng(3)
    sizes = np.concatenate(sets)
    owner = np.repeat(np.arange(len(sets)), [len(s) for s in sets])
    hits = []
    for _ in range(60):
        shares = rng.uniform(0.05, 0.95, len(sets))
        values, groups = simulated(sizes, shares[owner], 1, rng)
        targets = owner[groups]
        _, low, high = class_intervals(values[:, 0], targets, len(sets), groups)
        hits.append((low <= shares) & (shares <= high))
    assert 0.92 <= np.mean(hits) <= 0.98


def test_the_bootstrap_of_a_small_class_that_is_nearly_always_right_misses():
    """It has no width where all clips are right."""
    right = np.random.default_rng(4).random((8, 400)) < 0.95
    _, low, high = mean_intervals(right)
    assert covered(low, high, 0.95) < 0.45
    low, high = wilson_interval(right.mean(0), np.full(400, 8.0))
    assert covered(low, high, 0.95) > 0.92


def test_wilson_is_statsmodels():
    right, clips = np.array([0, 3, 8, 700]), np.array([8.0, 8, 8, 2000])
    np.testing.assert_allclose(wilson_interval(right / clips, clips), proportion_confint(right, clips, method="wilson"), atol=1e-12)


def test_groups_by_a_slow_loop():
    """Whole groups drawn with replacement, and the mean over all clips that came."""
    rng = np.random.default_rng(5)
    groups = np.repeat(list("abcdefghijklmnopqrst"), rng.integers(1, 9, 20))
    values = rng.standard_normal(len(groups)) + np.repeat(rng.standard_normal(20), np.unique(groups, return_counts=True)[1])
    slow = []
    for _ in range(4000):
        rows = np.concatenate([np.flatnonzero(groups == g) for g in rng.choice(np.unique(groups), 20)])
        slow.append(values[rows].mean())
    tail = stats.norm.sf(np.sqrt(20 / 19) * stats.t.isf(0.025, 19))
    ours = mean_interval(values, groups)
    assert ours.value == pytest.approx(values.mean())
    assert (ours.low, ours.high) == pytest.approx(tuple(np.quantile(slow, [tail, 1 - tail])), abs=0.06)
    assert mean_interval(values).high - mean_interval(values).low < ours.high - ours.low


def test_names_of_groups_do_not_matter_and_groups_of_one_are_none():
    rng = np.random.default_rng(6)
    values, groups = rng.random(60), np.arange(60) // 4
    assert mean_interval(values, np.arange(60)) == mean_interval(values, [f"clip {i}" for i in range(60)]) == mean_interval(values)
    assert mean_interval(values, groups) == mean_interval(values, [f"group {g}" for g in groups]) != mean_interval(values)
    with pytest.raises(ValueError, match="3 groups for 60 clips"):
        mean_interval(values, ["a", "b", "c"])


def test_one_group_tells_nothing_of_others():
    interval = mean_interval(np.array([1.0, 0.0, 1.0]), ["a"] * 3)
    assert interval.value == pytest.approx(2 / 3)
    assert np.isnan([interval.low, interval.high]).all()


def test_macro_over_groups(monkeypatch):
    """Groups that make no difference leave the interval as wide; groups that lie in one class widen it."""
    rng = np.random.default_rng(7)
    targets = np.repeat(np.arange(4), 40)
    values, groups = simulated([10] * 16, 0.6, 1, rng)
    alone, together = macro_interval(values[:, 0], targets, 4), macro_interval(values[:, 0], targets, 4, groups)
    assert alone.value == together.value == pytest.approx(values.mean())
    assert together.high - together.low > 1.5 * (alone.high - alone.low)
    monkeypatch.setattr(significance, "RESAMPLES", 20000)
    assert macro_interval(values[:, 0], targets, 4, np.arange(160)) == macro_interval(values[:, 0], targets, 4)


def test_correlation_within_groups_is_found():
    rng = np.random.default_rng(8)
    values, groups = simulated([10] * 400, 0.6, 1, rng)
    targets = groups % 4
    assert intraclass_correlation(values[:, 0], targets, groups) == pytest.approx(ALIKE, abs=0.05)
    assert intraclass_correlation(rng.permutation(values[:, 0]), targets, groups) == pytest.approx(0, abs=0.03)
    assert intraclass_correlation(values[:, 0], targets, None) == 0.0
    assert intraclass_correlation(values[:, 0], targets, targets) == 1.0, "one group per class: nothing tells"
    assert intraclass_correlation(np.ones(len(values)), targets, groups) == 1.0
    different_classes = np.array([0.1, 0.9])[groups % 2] > rng.random(len(groups))
    assert intraclass_correlation(different_classes, groups % 2, groups) == pytest.approx(0, abs=0.03), "beyond the class"


def test_a_class_of_groups_counts_for_fewer_clips():
    """One group per class: a class of nine right clips says as much as one right clip."""
    right, targets, groups = np.array([1.0] * 9 + [0.0] * 9), np.repeat([0, 1], 9), np.repeat(["a", "b"], 9)
    _, low, high = class_intervals(right, targets, 3, groups)
    assert (low[0], high[0]) == pytest.approx(proportion_confint(1, 1, method="wilson"))
    assert (low[1], high[1]) == pytest.approx(proportion_confint(0, 1, method="wilson"))
    assert np.isnan([low[2], high[2]]).all(), "a class without clips"
    _, low, high = class_intervals(right, targets, 2)
    assert (low[0], high[0]) == pytest.approx(proportion_confint(9, 9, method="wilson"))
