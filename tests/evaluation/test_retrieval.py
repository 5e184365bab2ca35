"""Ranks and precisions against scikit-learn and slow formulas; ties never help; captions that clips share are all positives."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, label_ranking_average_precision_score, top_k_accuracy_score

from residual_audio.data import Clip, load_dataset, make_dataset
from residual_audio.data.synthesis import take
from residual_audio.data.synthetic import SyntheticSound
from residual_audio.evaluation import EvaluationError
from residual_audio.evaluation.retrieval import AdaptedRetrieval, caption_pairs, rank_embeddings, rank_queries, retrieve
from residual_audio.evaluation.significance import mean_interval
from residual_audio.models import load_encoder


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("tiny")


@pytest.fixture(scope="module")
def captions():
    return load_dataset("synthetic-captions", per_class=1)


@pytest.fixture(scope="module")
def result(encoder, captions):
    return retrieve(encoder, captions)


def some(queries=40, items=30, seed=0, share=0.1):
    rng = np.random.default_rng(seed)
    relevant = rng.random((queries, items)) < share
    relevant[np.arange(queries), rng.integers(0, items, queries)] = True
    return rng.standard_normal((queries, items)), relevant


def slow(scores, relevant, depth):
    """One query, item by item: the worst order among equals."""
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], relevant[i]))
    hits, total, rank = 0, 0.0, None
    for place, item in enumerate(order, start=1):
        if relevant[item]:
            hits += 1
            rank = place - 1 if rank is None else rank
            if place <= depth:
                total += hits / place
    return rank, total / min(relevant.sum(), depth)


def test_average_precision_is_scikit_learns_where_all_items_count():
    scores, relevant = some()
    ranking = rank_queries(scores, relevant, depth=scores.shape[1])
    np.testing.assert_allclose(ranking.precision, [average_precision_score(r, s) for s, r in zip(scores, relevant, strict=True)])
    assert ranking.precision.mean() == pytest.approx(label_ranking_average_precision_score(relevant, scores))
    assert np.array_equal(ranking.positives, relevant.sum(1))


@pytest.mark.parametrize("k", [1, 5, 10])
def test_recall_is_top_k_accuracy_where_there_is_one_positive(k):
    scores, _ = some()
    target = np.random.default_rng(4).integers(0, 30, 40)
    relevant = np.eye(30, dtype=bool)[target]
    recall = rank_queries(scores, relevant).measures()[f"R@{k}"]
    assert recall.mean() == pytest.approx(top_k_accuracy_score(target, scores, k=k, labels=range(30)))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 25), st.integers(1, 12), st.integers(1, 4), st.integers(0, 10**6))
def test_the_slow_formula_says_the_same_also_with_ties(items, depth, levels, seed):
    """Scores of a few levels: nearly everything is tied."""
    rng = np.random.default_rng(seed)
    scores, relevant = rng.integers(0, levels, (6, items)).astype(float), rng.random((6, items)) < 0.3
    relevant[:, rng.integers(0, items)] = True
    ranking = rank_queries(scores, relevant, depth)
    for i in range(6):
        rank, precision = slow(scores[i], relevant[i], depth)
        assert ranking.rank[i] == rank
        assert ranking.precision[i] == pytest.approx(precision)
    assert ((ranking.precision >= 0) & (ranking.precision <= 1)).all()
    # No order of the columns changes anything.
    order = rng.permutation(items)
    again = rank_queries(scores[:, order], relevant[:, order], depth)
    assert np.array_equal(ranking.rank, again.rank)
    np.testing.assert_allclose(ranking.precision, again.precision)


def test_a_model_that_tells_nothing_apart_finds_nothing():
    relevant = np.eye(20, dtype=bool)
    ranking = rank_queries(np.ones((20, 20)), relevant)
    assert {name: values.max() for name, values in ranking.measures().items()} == {"R@1": 0, "R@5": 0, "R@10": 0, "mAP@10": 0}
    # Where everything is a positive, anything is a hit.
    assert rank_queries(np.ones((2, 3)), np.ones((2, 3), dtype=bool)).precision.tolist() == [1.0, 1.0]


def test_more_positives_than_places_can_still_be_perfect():
    scores = -np.arange(30.0)[None]
    assert rank_queries(scores, np.arange(30)[None] < 20).precision[0] == 1.0
    assert rank_queries(scores, (np.arange(30) % 2 == 0)[None]).precision[0] < 1.0


def test_what_cannot_be_ranked_is_told():
    with pytest.raises(EvaluationError, match="at least one positive"):
        rank_queries(np.zeros((1, 3)), np.zeros((1, 3), dtype=bool))
    with pytest.raises(EvaluationError, match="not finite"):
        rank_queries(np.array([[np.nan, 1.0]]), np.ones((1, 2), dtype=bool))


def test_pieces_are_the_whole(monkeypatch):
    from scipy.sparse import csr_array

    from residual_audio.evaluation import retrieval

    rng = np.random.default_rng(0)
    queries, items, relevant = rng.standard_normal((23, 4)), rng.standard_normal((9, 4)), some(23, 9)[1]
    whole = rank_queries(queries @ items.T, relevant)
    monkeypatch.setattr(retrieval, "AT_ONCE", 5)
    pieces = rank_embeddings(queries, items, csr_array(relevant))
    assert np.array_equal(whole.rank, pieces.rank)
    np.testing.assert_allclose(whole.precision, pieces.precision)


def test_shared_captions_are_one_query_with_all_their_clips():
    clips = [
        Clip("a", "a.wav", "x", captions=("a dog", "an animal")),
        Clip("b", "b.wav", "x", captions=("an  animal ", "")),
        Clip("c", "c.wav", "x"),
        Clip("d", "d.wav", "x", captions=("a dog", "a dog")),
    ]
    texts, relevant = caption_pairs(make_dataset("mine", clips))
    assert texts == ["a dog", "an animal"]
    assert relevant.toarray().tolist() == [[True, False, False, True], [True, True, False, False]]


def test_synthetic_captions_hold_every_true_pair(captions):
    """Against the drawn truth, pair by pair; a clip's own caption comes first."""
    rendered = []
    for clip in captions.clips:
        sound = SyntheticSound.parse(clip.path)
        rendered.append(take(sound.task, sound.index, sound.take))
    readings = {}
    for t in rendered:
        readings.setdefault(t.caption.text, []).append(t.caption)
    for clip, t in zip(captions.clips, rendered, strict=True):
        assert clip.captions[0] == t.caption.text
        true = {text for text, meant in readings.items() if any(c.true_of(t.label, t.words) for c in meant)}
        assert set(clip.captions) == true
    assert captions.name == "synthetic-captions"
    assert max(len(c.captions) for c in captions.clips) > 1


def test_tiny_finds_what_it_was_trained_on(result, captions):
    """Both ways far above chance, and each number is the mean over its queries with the bootstrap's interval."""
    table = result.table().set_index(["direction", "measure"])
    assert len(table) == 8
    ids = np.array([c.id for c in captions.clips])
    own = [next(c.id for c in captions.clips if c.captions[0] == text) for text in result.texts]
    for way, ranking, groups in (("text→audio", result.by_text, own), ("audio→text", result.by_audio, ids)):
        for name, values in ranking.measures().items():
            assert tuple(table.loc[(way, name), ["value", "low", "high"]]) == tuple(mean_interval(values, groups))
        chance = ranking.positives.mean() / len(captions)
        assert table.loc[(way, "R@1"), "value"] > 3 * chance
        recalls = [table.loc[(way, f"R@{k}"), "value"] for k in (1, 5, 10)]
        assert recalls == sorted(recalls)
    queries = result.queries()
    assert len(queries) == len(result.texts) + len(captions)
    assert queries["rank"].min() == 1


def test_the_embeddings_decide(result, encoder, captions):
    """From scratch: cosines of the public embeddings, sorted one by one."""
    audio = encoder.embed([c.source for c in captions.clips]).double().numpy()
    text = encoder.embed_text(result.texts).double().numpy()
    for i in (0, 7, 20):
        relevant = np.array([result.texts[i] in c.captions for c in captions.clips])
        rank, precision = slow(audio @ text[i], relevant, 10)
        assert (result.by_text.rank[i], result.by_text.precision[i]) == (rank, pytest.approx(precision))


def test_clips_without_captions_are_candidates_only(encoder, captions, result):
    silent = [dataclasses.replace(c, captions=()) if i >= 10 else c for i, c in enumerate(captions.clips)]
    half = retrieve(encoder, make_dataset("half", silent))
    table = half.table()
    assert set(table.loc[table.direction == "audio→text", "queries"]) == {10}
    assert set(table.loc[table.direction == "text→audio", "candidates"]) == {len(captions)}
    with pytest.raises(EvaluationError, match="same clips and captions"):
        half.against(result)


def test_results_write_themselves_alone_and_compared(result, tmp_path):
    result.write(tmp_path / "alone")
    record = json.loads((tmp_path / "alone" / "retrieval.json").read_text())
    assert record["clips"] == {"used": len(result.dataset), "captions": len(result.texts), "errors": 0}
    assert set(record["dataset"]) == {"name", "clips", "notes"}, "labels and folds play no part"
    assert {p.stem for p in (tmp_path / "alone" / "tables").glob("*.csv")} == {"retrieval", "retrieval_queries"}
    both = AdaptedRetrieval(result, result, "somewhere")
    both.write(tmp_path / "both")
    table = pd.read_parquet(tmp_path / "both" / "tables" / "retrieval.parquet")
    assert table.model.value_counts().to_dict() == {"base": 8, "adapted": 8}
    assert (pd.read_parquet(tmp_path / "both" / "tables" / "retrieval_difference.parquet").difference == 0).all()
    assert json.loads((tmp_path / "both" / "retrieval.json").read_text())["settings"]["adapter"] == "somewhere"


def test_differences_are_paired(result):
    worse = dataclasses.replace(result, by_text=dataclasses.replace(result.by_text, rank=result.by_text.rank + 1))
    table = worse.against(result).set_index(["direction", "measure"])
    lost = -np.mean(result.by_text.rank == 0)
    assert table.loc[("text→audio", "R@1"), "difference"] == pytest.approx(lost)
    assert table.loc[("text→audio", "R@1"), "low"] <= lost <= table.loc[("text→audio", "R@1"), "high"]
    assert (table.loc["audio→text", ["difference", "low", "high"]] == 0).all(axis=None)


def test_unreadable_clips_and_their_captions_are_left_out(encoder, captions, tmp_path):
    bad = tmp_path / "bad.wav"
    bad.write_text("x")
    clips = [*captions.clips[:6], Clip("bad", str(bad), "x", captions=("only of a broken file",))]
    kept = retrieve(encoder, make_dataset("mine", clips))
    assert list(kept.errors) == ["bad"]
    assert "only of a broken file" not in kept.texts
    assert len(kept.dataset) == 6


def test_questions_without_an_answer(encoder, whisper_dir, captions):
    with pytest.raises(EvaluationError, match=r"synthetic-timbre has no captions.*columns path and caption"):
        retrieve(encoder, load_dataset("synthetic-timbre", per_class=1))
    with pytest.raises(EvaluationError, match="no text side"):
        retrieve(load_encoder(whisper_dir), captions)
