"""One weighting: accuracy, interval and difference are means over clips, and the plain model's are those of `zero-shot`."""

import numpy as np
import pytest

from residual_audio.comparison.compare import compare
from residual_audio.comparison.protocol import Protocol
from residual_audio.data import load_dataset
from residual_audio.evaluation import zero_shot
from residual_audio.evaluation.paired import COLUMNS
from residual_audio.models import load_encoder


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("tiny")


@pytest.fixture(scope="module")
def data():
    """Folds of very unequal size, and takes in groups of two."""
    from dataclasses import replace

    whole = load_dataset("synthetic-timbre", per_class=9)
    clips = [replace(c, fold=(1, 1, 1, 1, 1, 1, 2, 2, 3)[i % 9], group=f"{c.label} {i % 9 // 2}") for i, c in enumerate(whole.clips)]
    return replace(whole, clips=tuple(clips), folds="official")


def test_accuracy_interval_and_difference_have_one_weighting(encoder, data, tmp_path):
    result = compare(encoder, data, tmp_path, ["plain", "plain+probe", "top-heads"], protocol=Protocol(repeats=2, margin=0.1))
    summary, cells = result.summary.set_index("method"), result.cells
    for name, row in summary.iterrows():
        own = cells[cells.method == name]
        by_fold = own.groupby("fold").accuracy.mean()
        assert row.accuracy == pytest.approx(np.average(own.accuracy, weights=own.clips))
        assert row.low <= row.accuracy <= row.high
        assert (row.fold_mean, row["std"]) == pytest.approx((by_fold.mean(), by_fold.std(ddof=1)))
    assert (summary.fold_mean - summary.accuracy).abs().max() > 0.005, "folds that weigh alike prove nothing"
    assert tuple(result.paired) == COLUMNS
    assert list(zip(result.paired.method, result.paired.against, strict=True)) == [
        ("plain+probe", "plain"),
        ("top-heads", "plain"),
        ("top-heads", "plain+probe"),
    ]
    for row in result.paired.itertuples():
        assert row.difference == pytest.approx(summary.accuracy[row.method] - summary.accuracy[row.against])
        assert row.low <= row.difference <= row.high
        assert np.isnan(row.t) or np.sign(row.t) == np.sign(row.difference)
    assert (result.paired.margin == 0.1).all()
    shown = zero_shot(encoder, data).summary()["top1"]
    assert tuple(summary.loc["plain", ["accuracy", "low", "high"]]) == pytest.approx(tuple(shown)), "plain is zero-shot"
