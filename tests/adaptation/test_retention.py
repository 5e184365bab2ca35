"""Truncation is the model itself where every axis is retained, and its mean where hardly any is."""

import pandas as pd
import pytest

from residual_audio.adaptation.retention import doubling, parse_retained, retention
from residual_audio.cli import app
from residual_audio.data import load_dataset
from residual_audio.evaluation import EvaluationError, zero_shot
from residual_audio.models import load_encoder
from residual_audio.options import OptionError


def test_all_axes_are_the_model_and_few_lose(tmp_path):
    encoder, data = load_encoder("tiny"), load_dataset("synthetic-timbre").limited(72)
    found = retention(encoder, data, "S3 heads mlps", [1, 0.9, 256])
    curve = found.curve.set_index(["axes", "retain"])
    whole = zero_shot(encoder, data).summary()["top1"].value
    assert curve.accuracy["principal", 256.0] == curve.accuracy["random", 256.0] == pytest.approx(whole)
    assert curve.share["principal"].between(0, 1.0001).all()
    assert curve.share["principal", 0.9] >= 0.9 > curve.share["principal", 1.0] > curve.share["random", 1.0]
    assert curve.accuracy["principal", 1.0] < whole
    assert curve.accuracy["principal", 0.9] > curve.accuracy["random", 1.0]


def test_the_verb_writes_a_table_and_a_figure(tmp_path):
    words = ["truncate", "tiny", "synthetic-voice", "--limit", "30", "--units", "S3B1", "--retain", "2,0.5", "--out", str(tmp_path)]
    app(words, standalone_mode=False)
    table = pd.read_parquet(tmp_path / "tables" / "retention.parquet")
    assert table[["axes", "retain"]].to_numpy().tolist() == [["principal", 2.0], ["principal", 0.5], ["random", 2.0], ["random", 0.5]]
    assert (tmp_path / "figures" / "accuracy_vs_retention.pdf").exists()


def test_what_is_retained_is_told_apart():
    assert parse_retained("1, 4,0.5") == [1, 4, 0.5]
    assert doubling(8) == [1, 2, 4, 8]
    assert doubling(24) == [1, 2, 4, 8, 16, 24]
    with pytest.raises(EvaluationError, match="neither a number of axes"):
        parse_retained("some")
    with pytest.raises(OptionError, match="--retain"):
        parse_retained("1.5")
