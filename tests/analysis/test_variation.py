"""Variation, borders, dominance, shape and importance, against numpy, scipy and slow loops."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import optimize, stats

from residual_audio.analysis.importance import block_interval, importance
from residual_audio.analysis.shape import rising, shapes
from residual_audio.analysis.similarity import paired_similarity
from residual_audio.analysis.variation import borders, dataset_variation, dominance, variation

STAGES = [0, 0, 1, 1, 2, 2, 2, 2]


def heads_of(curve, spread=0.3, per_block=6, seed=0) -> pd.DataFrame:
    """Eight blocks in three stages; the mean of a block is a point of the curve."""
    rng = np.random.default_rng(seed)
    rows = [
        {"label": f"S{s}B{sum(STAGES[:d].count(x) for x in [s])}H{h}", "stage": s, "block": STAGES[:d].count(s), "depth": d, "head": h,
         "x": curve[d] + spread * rng.standard_normal(), "evr_1": rng.random()}
        for d, s in enumerate(STAGES) for h in range(per_block)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_variation_over_heads_and_data_sets():
    heads = heads_of(np.linspace(5, 9, 8))
    table = variation(heads, ["x"]).set_index("stage")
    own = heads[heads.stage == 1].x
    assert table.cv["S1"] == pytest.approx(stats.variation(own, ddof=1))
    assert table.n["all"] == len(heads)
    others = {"a": heads, "b": heads.assign(x=heads.x * 1.2)}
    across = dataset_variation(others, ["x"]).set_index("place")
    means = [t.groupby("stage").x.mean() for t in others.values()]
    assert across.cv["S0"] == pytest.approx(stats.variation([m[0] for m in means], ddof=1))
    assert across["mean"]["S0→S1"] == pytest.approx(np.mean([m[1] - m[0] for m in means]))


def test_borders_have_welch_intervals_and_their_size_among_steps():
    heads = heads_of([1, 1.1, 4, 4.1, 4.2, 4.3, 4.2, 4.1])
    table = borders(heads, ["x"])
    steps = table[table.step == "block"]
    assert steps.border.tolist() == [False, True, False, True, False, False, False]
    jump = steps.iloc[1]
    before, after = (heads[heads.depth == d].x for d in (1, 2))
    interval = stats.ttest_ind(after, before, equal_var=False).confidence_interval()
    assert (jump.low, jump.high) == pytest.approx((interval.low, interval.high))
    assert jump.relative == pytest.approx(after.mean() / before.mean() - 1)
    assert jump.against_inner > 5
    assert (table.step == "stage").sum() == 2


def test_dominance_counts_heads_below_half():
    heads = heads_of(np.zeros(8))
    table = dominance(heads).set_index("stage")
    assert table.below["S2"] == (heads[heads.stage == 2].evr_1 < 0.5).sum()
    assert table.low["all"] < table.share["all"] < table.high["all"]


def test_monotonic_fits_equal_scipy():
    curves = np.random.default_rng(0).standard_normal((50, 9))
    for curve, fitted in zip(curves, rising(curves), strict=True):
        np.testing.assert_allclose(fitted, optimize.isotonic_regression(curve).x, atol=1e-12)


def test_shapes_that_were_planted_are_found():
    x = np.linspace(0, 1, 8)
    planted = {
        "hunchback": 10 - 20 * (x - 0.5) ** 2,
        "valley": 10 + 20 * (x - 0.5) ** 2,
        "rising": 5 * np.sqrt(x),
        "falling": -np.exp(2 * x),
    }
    for name, curve in planted.items():
        row = shapes(heads_of(curve), ["x"]).iloc[0]
        assert row["shape"] == name
        assert row.peak_low <= row.peak_depth <= row.peak_high
        assert row.curvature_low < row.curvature < row.curvature_high
    noise = shapes(heads_of(np.zeros(8), seed=3), ["x"]).iloc[0]
    assert noise["shape"] == "undecided"
    assert shapes(heads_of(x)[lambda h: h.depth < 3], ["x"]).iloc[0].note == "3 blocks: too few"


def test_one_unit_per_block_uses_its_error():
    x = np.linspace(0, 1, 8)
    heads = heads_of(10 - 20 * (x - 0.4) ** 2, per_block=1, spread=0.05)
    assert "no intervals" in shapes(heads, ["x"]).iloc[0].note
    row = shapes(heads.assign(x_se=0.1), ["x"]).iloc[0]
    assert (row["shape"], row.peak) == ("hunchback", "S1B1")


def test_importance_equals_scipy_and_slow_resamples():
    heads = heads_of(np.linspace(0, 1, 8)).rename(columns={"x": "fisher"}).assign(entropy=1.0)
    ablation = heads[["label"]].assign(accuracy_drop=heads.fisher**3, margin_drop=-heads.fisher)
    table = importance({"heads": heads, "ablation_head": ablation}).set_index(["measure", "cost", "correlation"])
    row = table.loc["fisher", "accuracy_drop", "pearson"]
    expected = stats.pearsonr(heads.fisher, heads.fisher**3)
    assert (row.value, row.p) == pytest.approx((expected.statistic, expected.pvalue))
    assert row.low < row.value < row.high
    assert table.value["fisher", "margin_drop", "spearman"] == pytest.approx(-1)
    assert table.value["fisher", "margin_drop", "spearman given depth"] == pytest.approx(-1)
    assert np.isnan(table.value["entropy", "margin_drop", "pearson"])
    assert importance({"heads": heads}).empty
    rng, noisy = np.random.default_rng(0), heads.fisher.to_numpy() + 0.5 * np.random.default_rng(1).standard_normal(len(heads))
    x, depth = heads.fisher.to_numpy(), heads.depth.to_numpy()
    slow = []
    for _ in range(2000):
        rows = np.concatenate([np.flatnonzero(depth == d) for d in rng.integers(0, 8, 8)])
        slow.append(np.corrcoef(x[rows], noisy[rows])[0, 1])
    np.testing.assert_allclose(block_interval(x, noisy, depth), np.percentile(slow, [2.5, 97.5]), atol=0.03)


def test_paired_cosine_equals_a_loop():
    """ResiDual's own form, axis by axis as it is published."""
    generator = torch.Generator().manual_seed(0)
    axes = torch.linalg.qr(torch.randn(5, 7, 7, generator=generator, dtype=torch.float64)).Q[:, :4]
    variance = torch.rand(5, 4, generator=generator, dtype=torch.float64).sort(descending=True).values
    matrix = paired_similarity(axes, variance)
    for a in range(5):
        for b in range(5):
            kept = [int((v.cumsum(0) / v.sum() > 0.9).float().argmax()) + 1 for v in (variance[a], variance[b])]
            left = torch.outer(variance[a, : kept[0]], variance[b, : kept[1]]) * (axes[a, : kept[0]] @ axes[b, : kept[1]].T).abs()
            ideal = torch.outer(variance[a, : kept[0]], variance[b, : kept[1]]).diag().norm()
            picked = []
            for _ in range(min(kept)):
                i, j = divmod(int(left.argmax()), left.shape[1])
                picked.append(float(left[i, j]))
                left[i], left[:, j] = -1, -1
            assert float(matrix[a, b]) == pytest.approx(float(torch.tensor(picked).norm() / ideal))
    torch.testing.assert_close(matrix.diagonal(), torch.ones(5, dtype=torch.float64))
