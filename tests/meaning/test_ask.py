"""Which units move clips towards a text: shares sum to one, maps to the score."""

import numpy as np
import pytest
import torch

from residual_audio.data import load_dataset
from residual_audio.extraction import extract
from residual_audio.meaning import MeaningError, ask
from residual_audio.meaning.ask import movement
from residual_audio.media import MediaError
from residual_audio.models import load_encoder


def test_shares_of_all_units_and_the_constant_sum_to_one(run, tiny):
    answer = ask(run, "a church bell", encoder=tiny, components=200, top=3)
    table = answer.tables["ask_units"]
    assert len(table) == len(run.units) + 1
    assert table.share.sum() == pytest.approx(1, abs=1e-5)
    scores = torch.nn.functional.normalize(run.array("embedding.joint")[:], dim=-1) @ tiny.embed_text(["a church bell"])[0]
    assert answer.info["score_mean"] == pytest.approx(float(scores.mean()), abs=1e-5)
    assert table["mean"].sum() == pytest.approx(float(scores.mean()), abs=1e-5)
    parts = answer.tables["ask_components"]
    for label, components in parts.groupby("label"):
        whole = float(table.share[table.label == label].iloc[0])
        assert components.share.sum() == pytest.approx(whole, abs=0.02), "components are 99 % of the unit"


def test_movement_is_covariance_over_variance():
    rng = np.random.default_rng(0)
    parts = rng.standard_normal((50, 4))
    score = parts.sum(1)
    table = movement(torch.from_numpy(parts), torch.from_numpy(score))
    for i in range(4):
        assert table.share[i] == pytest.approx(np.cov(parts[:, i], score)[0, 1] / np.var(score, ddof=1))
        assert table.correlation[i] == pytest.approx(np.corrcoef(parts[:, i], score)[0, 1])
    assert table.share.sum() == pytest.approx(1)


def test_the_planted_head_answers_to_its_text(planted, tiny):
    run, amounts = planted
    answer = ask(run, "bell", "heads", encoder=tiny)
    best = answer.tables["ask_units"].iloc[0]
    assert best.label == "S0B0H0"
    assert best.share > 0.5
    most = {f"clip{i}" for i in np.argsort(amounts[:, 0, 0])[-8:]}
    assert set(best.clips.split("; ")) <= most
    assert answer.tables["ask_components"].iloc[0].label == "S0B0H0"


@pytest.mark.parametrize("name", ["tiny", "laion_dir", "msclap_path"])
def test_the_map_of_a_clip_sums_to_its_score(name, request, tmp_path):
    """As the run stored it, through the model that the run names."""
    path = "tiny" if name == "tiny" else request.getfixturevalue(name)
    data = load_dataset("synthetic", per_class=1).limited(4)
    run = extract(load_encoder(path), data, tmp_path / "r", ("direct",))
    clip = run.clips["id"].iloc[2]
    answer = ask(run, "this is the sound of a dog", clip=clip)
    stored = torch.nn.functional.normalize(run.array("embedding.joint")[2], dim=-1)
    expected = float(stored @ load_encoder(path).embed_text(["this is the sound of a dog"])[0])
    cells = answer.tables["ask_map"]
    assert cells.value.sum() == pytest.approx(expected, abs=1e-4)
    assert answer.map.score == pytest.approx(expected, abs=1e-5)
    assert cells.units.sum() == pytest.approx(float(answer.map.of().sum()), abs=1e-5)
    grid = answer.map.total.shape
    assert len(cells) == grid[0] * grid[1]
    assert answer.mel.shape[1] == 64


def test_clips_that_are_not_there_are_told(run, tiny, planted):
    with pytest.raises(MeaningError, match="no readable clip 'nobody'"):
        ask(run, "rain", clip="nobody", encoder=tiny)
    with pytest.raises(MediaError):
        ask(planted[0], "rain", clip="clip0", encoder=tiny)
