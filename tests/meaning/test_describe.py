"""Words for a run: a planted truth is found, a real run gives whole tables, and what cannot be answered is told."""

import numpy as np
import pandas as pd
import pytest
import torch

from residual_audio.data import load_dataset
from residual_audio.evaluation import zero_shot
from residual_audio.extraction import extract
from residual_audio.meaning import MeaningError, describe
from residual_audio.meaning.describe import choose_units, coherent_stages
from residual_audio.meaning.shares import share_batches, unit_embeddings
from residual_audio.meaning.texts import cache_folder, text_directions
from residual_audio.models import EncoderError, load_encoder
from tests.meaning.conftest import PLANTED


@pytest.fixture(scope="module")
def found(planted, own_words, tiny):
    return describe(planted[0], own_words, words=3, components=1, permutations=10, resamples=10, select=False, encoder=tiny).tables


@pytest.mark.parametrize("method", ["textspan", "somp"])
def test_planted_words_are_named_with_their_clips(found, planted, method):
    run, amounts = planted
    words = found["words"][found["words"].method == method]
    lists = found["descriptions"][found["descriptions"].method == method].set_index("label")
    for head, (label, truth) in enumerate(PLANTED.items()):
        mine = words[words.label == label].sort_values("rank")
        assert set(mine.word) == set(truth)
        assert mine.explained.is_monotonic_increasing
        assert lists.loc[label, "explained"] > 0.97
        assert lists.loc[label, "stability"] > 0.9
        assert lists.loc[label, "words"] == "; ".join(mine.word)
        assert lists.loc[label, "approximation"].startswith("direct")
        first = mine[mine.word == truth[0]].iloc[0]
        most = {run.clips["id"][i] for i in np.argsort(amounts[:, head, 0])[-8:]}
        assert len(set(first.clips.split("; ")) & most) >= 2, "the clips in which the head writes most of it"


def test_the_correlation_route_names_what_the_strongest_component_moves(found):
    words = found["words"][(found["words"].method == "correlation") & (found["words"]["rank"] == 1)].set_index("label").word
    assert sum(words[label] in truth for label, truth in PLANTED.items()) >= 3


def test_units_that_do_not_vary_have_no_words(planted, tiny):
    with pytest.raises(MeaningError, match="none of the chosen units varies"):
        describe(planted[0], "synthetic", "mlps", words=3, select=False, encoder=tiny)


@pytest.fixture(scope="module")
def real(run, tiny):
    return describe(run, units="S3B1 S0B0H0", words=4, components=2, permutations=4, resamples=3, encoder=tiny)


def test_a_real_run_gives_whole_tables(real, run):
    lists, words = real.tables["descriptions"], real.tables["words"]
    units = len(choose_units(run.units, "S3B1 S0B0H0"))
    assert lists.method.value_counts().to_dict() == {"textspan": units, "somp": units, "correlation": 2 * units}
    assert len(words) == 4 * len(lists)
    assert lists.explained.between(0, 1 + 1e-9).all()
    assert lists.p_null.between(1 / 5, 1).all()
    assert lists.stability.between(0, 1).all()
    assert set(words.dictionary) == {"synthetic"}
    assert set(";".join(words.clips).replace(" ", "").split(";")) <= set(run.clips["id"])
    again = describe(run, units="S0B0H0", words=4, components=2, permutations=4, resamples=3, select=False)
    both = again.tables["descriptions"].merge(lists[lists.label == "S0B0H0"], on=["method", "component"])
    assert (both.z_null_x == both.z_null_y).all(), "the same unit alone, the same numbers"


def test_shares_are_of_the_unit_length_embedding(run):
    whole = torch.cat([shares.sum(1) + constant for _, shares, constant in share_batches(run)])
    assert (whole - unit_embeddings(run)).abs().max() < 1e-5


def test_all_heads_kept_is_the_model_itself(real, run, tiny):
    """The last point of every curve is zero-shot accuracy as it is measured elsewhere; no head means less."""
    curves = real.tables["selection"]
    ids = set(run.clips["id"])
    data = load_dataset("synthetic", per_class=4).only(lambda c: c.id in ids, "the run's clips")
    expected = zero_shot(tiny, data).outcome.correct.mean()
    kept = curves[curves.others == "kept"]
    assert kept[kept.k == kept.k.max()].accuracy.to_numpy() == pytest.approx(expected)
    assert set(curves.ranking) == {"greedy", "correlation", "Fisher", "random"}
    assert len(curves) == 2 * 4 * (184 + 1)
    none = curves[curves.k == 0].groupby("others").accuracy
    assert (none.max() - none.min() < 1e-9).all(), "without heads, no ranking matters"
    alignment = real.tables["text_alignment"]
    assert alignment.label.tolist() == [u.label for u in run.units]
    assert alignment.correlation.between(-1, 1).all()
    summary = real.tables["selection_summary"].set_index(["others", "ranking"])
    curve = curves[(curves.others == "kept") & (curves.ranking == "greedy")].accuracy.to_numpy()
    needed = summary.loc[("kept", "greedy"), "needed"]
    assert (curve[needed:] >= 0.95 * curve[-1]).all()
    assert summary.loc[("kept", "greedy"), "reached"] == int(np.argmax(curve >= 0.95 * curve[-1])) <= needed
    assert needed == 0 or curve[needed - 1] < 0.95 * curve[-1]


def test_a_selection_that_cannot_be_made_is_left_out_and_told(tiny, tmp_path):
    alone = extract(tiny, load_dataset("synthetic-voice", per_class=1), tmp_path / "r", ("direct",))
    result = describe(alone, units="S3B1H0", permutations=2, resamples=0, encoder=tiny)
    assert "selection" not in result.tables
    assert "two clips" in result.info["selection"]


def test_the_most_coherent_heads_are_counted_by_stage():
    lists = pd.DataFrame({"kind": "head", "component": 0, "method": "textspan", "stage": [0] * 10 + [1] * 30,
                          "z_null": [5.0] * 3 + [0.0] * 36 + [4.0], "p_null": [0.01] * 3 + [0.5] * 37})  # fmt: skip
    table = coherent_stages(lists).set_index("stage")
    assert table.most_coherent.to_dict() == {0: 3, 1: 1}
    assert table.loc[0, "ratio"] == pytest.approx((3 / 4) / (10 / 40))
    assert table.significant.to_dict() == {0: 3, 1: 0}


def test_texts_are_kept_by_revision(run, tiny):
    first = text_directions(run.info, ["a bell", "rain"], opened=lambda: tiny)
    assert torch.allclose(first, tiny.embed_text(["a bell", "rain"]), atol=1e-6)

    def never():
        raise AssertionError("the cache was not used")

    assert torch.equal(text_directions(run.info, ["a bell", "rain"], opened=never), first)
    other = {**run.info, "model": {**run.info["model"], "revision": "other"}}
    with pytest.raises(AssertionError, match="not used"):
        text_directions(other, ["a bell", "rain"], opened=never)
    assert not [p for p in cache_folder().iterdir() if p.name.startswith(".")], "no drafts are left"


def test_texts_that_are_not_kept_need_an_encoder(run):
    with pytest.raises(MeaningError, match="not in the cache"):
        text_directions(run.info, ["a text that is not kept"])


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        ({"methods": ["span"]}, "textspan, somp, correlation"),
        ({"units": "S9"}, "names no unit"),
        ({"units": "S3B1H99"}, "names no unit"),
        ({"dictionary": "nowhere"}, "no dictionary"),
        ({"words": 1}, "at least 2"),
        ({"template": "nonsense"}, "one of sound-of"),
    ],
)
def test_questions_without_an_answer(run, tiny, choices, says):
    with pytest.raises(ValueError, match=says):
        describe(run, **{"select": False, "encoder": tiny, **choices})


def test_a_run_without_direct_shares_says_how_to_get_them(tiny, tmp_path):
    data = load_dataset("synthetic-voice", per_class=1)
    bare = extract(tiny, data, tmp_path / "r", ("head",))
    with pytest.raises(MeaningError, match="--granularity head,embedding,direct"):
        describe(bare, encoder=tiny)


def test_an_encoder_without_a_text_side_is_told(whisper_dir, tmp_path):
    encoder = load_encoder(whisper_dir, seconds=1.0)
    data = load_dataset("synthetic-voice", per_class=1)
    mute = extract(encoder, data, tmp_path / "r", ("direct",))
    with pytest.raises(MeaningError, match="no text side"):
        describe(mute)
    with pytest.raises(EncoderError):
        encoder.embed_text(["rain"])
