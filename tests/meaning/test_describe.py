"""Words for a run: a planted truth is found, a real run gives whole tables, and what cannot be answered is told."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import torch

from residual_audio.data import load_dataset
from residual_audio.evaluation import zero_shot
from residual_audio.extraction import Run, extract
from residual_audio.meaning import MeaningError, ask, describe
from residual_audio.meaning.describe import coherent_stages
from residual_audio.meaning.shares import share_batches, unit_embeddings
from residual_audio.meaning.texts import cache_folder, text_directions
from residual_audio.models import EncoderError, load_encoder
from tests.meaning.conftest import PLANTED


@pytest.fixture(scope="module")
def tables(planted, own_words, tiny):
    return describe(planted[0], own_words, words=3, components=1, permutations=10, resamples=10, select=False, encoder=tiny).tables


@pytest.mark.parametrize("method", ["textspan", "somp"])
def test_planted_words_are_named_with_their_clips(tables, planted, method):
    run, amounts = planted
    words = tables["words"][tables["words"].method == method]
    lists = tables["descriptions"][tables["descriptions"].method == method].set_index("label")
    for head, (label, truth) in enumerate(PLANTED.items()):
        named = words[words.label == label].sort_values("rank")
        assert set(named.word) == set(truth)
        assert named.explained.is_monotonic_increasing
        assert lists.loc[label, "explained"] > 0.97
        assert lists.loc[label, "stability"] > 0.9
        assert lists.loc[label, "words"] == "; ".join(named.word)
        assert lists.loc[label, "approximation"].startswith("direct")
        first = named[named.word == truth[0]].iloc[0]
        most = {run.clips["id"][i] for i in np.argsort(amounts[:, head, 0])[-8:]}
        assert len(set(first.clips.split("; ")) & most) >= 2, "the clips in which the head writes most of it"


def test_the_correlation_route_names_what_the_strongest_component_moves(tables):
    words = tables["words"][(tables["words"].method == "correlation") & (tables["words"]["rank"] == 1)].set_index("label").word
    assert sum(words[label] in truth for label, truth in PLANTED.items()) >= 3


def test_units_that_do_not_vary_have_no_words(planted, tiny):
    with pytest.raises(MeaningError, match="none of the chosen units varies"):
        describe(planted[0], "synthetic", "mlps", words=3, select=False, encoder=tiny)


@pytest.fixture(scope="module")
def real(run, tiny):
    return describe(run, units="S3B1 S0B0H0", words=4, components=2, permutations=4, resamples=3, encoder=tiny)


def test_a_real_run_gives_whole_tables(real, run):
    lists, words = real.tables["descriptions"], real.tables["words"]
    units = len(run.units.select("S3B1 S0B0H0"))
    assert set(lists.label) == {u.label for u in run.units.select("S3B1 S0B0H0")}
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


@pytest.mark.parametrize("text", ["S3 heads", "S3B1 mlps", "S3B1H0 E", "all"])
def test_a_selection_means_the_same_as_everywhere(run, tiny, text):
    """Of 184 heads, "S3 heads" are 64; the input embedding is of the kind "input"."""
    chosen = run.units.select(text)
    told: list[int] = []
    result = describe(run, units=text, methods=["somp"], permutations=2, resamples=0, select=False, encoder=tiny, advance=told.append)
    assert sum(told) == len(chosen) == {"S3 heads": 64, "S3B1 mlps": 1, "S3B1H0 E": 2, "all": len(run.units)}[text]
    lists, asked = result.tables["descriptions"], ask(run, "rain", text, encoder=tiny).tables["ask_units"]
    assert set(lists.label) == {u.label for u in chosen} == set(asked.label) - {"constant"}
    for table in (lists, asked[asked.label != "constant"]):
        assert dict(zip(table.label, table.kind, strict=True)) == {u.label: u.kind for u in chosen}


def test_the_time_is_told_beforehand(run, tiny):
    """Measured on a few units, of which nothing is left: the words are the same. Where there are few units, there is nothing to tell."""
    told: list[object] = []
    choices = {"methods": ["somp"], "permutations": 2, "resamples": 0, "select": False, "encoder": tiny}
    result = describe(run, units="S3 heads", **choices, advance=told.append, tell=told.append)
    assert re.fullmatch(r"words for 64 units: about \d+\.\d min, measured on some; .*", str(told[0]))
    assert told[1:] == [1] * 64
    pd.testing.assert_frame_equal(result.tables["words"], describe(run, units="S3 heads", **choices).tables["words"])
    told.clear()
    describe(run, units="S3B1H0 E", **choices, tell=told.append)
    assert told == []


def test_the_result_writes_itself(real, run, tmp_path):
    real.write(tmp_path)
    for name, table in real.tables.items():
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "tables" / f"{name}.parquet"), table)
    record = json.loads((tmp_path / "describe.json").read_text())
    assert record["units"] == "S3B1 S0B0H0"
    assert record["dictionary"]["names"] == ["synthetic"]
    assert record["run"]["model"] == run.info["model"]


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
    runs = torch.rand(40, 100, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    runs[:3, 0] = 2.0
    runs[3:, 0] = 0.5
    both = coherent_stages(pd.concat([lists, lists.assign(method="somp")], ignore_index=True), torch.cat([runs, runs]))
    everywhere = both[both.stage == -1]
    assert everywhere.significant.tolist() == [3, 3]
    assert everywhere.expected_significant.between(1.5, 2.5).all(), "about a twentieth of forty"
    assert everywhere.p_holm.tolist() == pytest.approx((2 * everywhere.p_count).clip(upper=1).tolist()), "two methods"
    table = both[(both.method == "textspan") & (both.stage >= 0)].set_index("stage")
    assert table.p_count[0] <= 0.05 < table.p_count[1] == 1.0
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


def test_other_weights_than_the_runs_are_refused(run):
    other = {**run.info, "model": {**run.info["model"], "revision": "sha256:other"}}
    with pytest.raises(ValueError, match="where the run was made"):
        describe(Run(run.store, other), template="{} that is not kept", select=False)


def test_classes_are_called_what_the_run_calls_them(run, tiny, monkeypatch):
    """The prompts of the selection are filled with the run's class names, not with its labels."""
    asked: list[list[str]] = []

    def directions(info, texts, *rest):
        asked.append(list(texts))
        return text_directions(info, texts, *rest)

    monkeypatch.setattr("residual_audio.meaning.selection.text_directions", directions)
    names = {label: f"{label}, so called" for label in run.info["labels"]}
    named = Run(run.store, {**run.info, "class_names": names})
    describe(named, units="S3B1H0", methods=["somp"], permutations=2, resamples=0, encoder=tiny)
    assert asked == [list(names.values())]


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
    encoder = load_encoder(whisper_dir)
    data = load_dataset("synthetic-voice", per_class=1).limited(2)
    mute = extract(encoder, data, tmp_path / "r", ("direct",))
    with pytest.raises(MeaningError, match="no text side"):
        describe(mute)
    with pytest.raises(EncoderError):
        encoder.embed_text(["rain"])
