from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from residual_audio.data import Clip, DataError, Dataset, clean_label, make_dataset


def dataset(*labels: str) -> Dataset:
    return make_dataset("test", [Clip(id=str(i), path=f"{i}.wav", label=label) for i, label in enumerate(labels)])


def test_labels_are_sorted_and_targets_follow_them():
    data = dataset("wind", "dog_bark", "wind")
    assert data.labels == ("dog_bark", "wind")
    assert data.targets.tolist() == [1, 0, 1]
    assert data.names == {"dog_bark": "dog bark", "wind": "wind"}


def test_duplicate_ids_are_refused_by_name():
    with pytest.raises(DataError, match="'a' occurs more than once"):
        make_dataset("test", [Clip("a", "1.wav", "x"), Clip("b", "2.wav", "x"), Clip("a", "3.wav", "y")])


def test_nothing_is_refused():
    with pytest.raises(DataError, match="no clips found"):
        make_dataset("test", [])


@pytest.mark.parametrize(("label", "words"), [("chirping_birds", "chirping birds"), ("Hi-Hat", "hi hat"), ("  Ébène_ō ", "ébène ō")])
def test_clean_label(label, words):
    assert clean_label(label) == words


def test_a_clip_without_a_group_is_its_own():
    data = make_dataset("test", [Clip("a", "1.wav", "x", group="s1"), Clip("b", "2.wav", "x"), Clip("c", "3.wav", "x", group="s1")])
    assert data.groups == ["s1", "b", "s1"]


def test_limited_takes_the_first_of_each_class_in_turn():
    data = dataset("a", "a", "a", "b", "b", "c")
    assert [c.id for c in data.limited(4, "first").clips] == ["0", "1", "3", "5"]
    assert data.limited(2, "first").labels == ("a", "b")
    assert len(data.limited(99)) == 6
    assert data.limited(4, "first").notes == {"limit": 4, "sample": "first"}
    with pytest.raises(DataError, match="unknown sample 'last'; one of stratified, first"):
        data.limited(4, "last")


def test_limited_is_stratified_seeded_and_in_order():
    data = dataset(*(c for c in "abc" for _ in range(50)))
    drawn = data.limited(30, seed=1)
    assert Counter(c.label for c in drawn.clips) == {"a": 10, "b": 10, "c": 10}
    assert drawn.clips == data.limited(30, seed=1).clips != data.limited(30, seed=2).clips
    assert drawn.clips != data.limited(30, "first").clips
    assert np.all(np.diff([int(c.id) for c in drawn.clips]) > 0)
    assert drawn.notes == {"limit": 30, "sample": "stratified", "sample_seed": 1}


@pytest.mark.parametrize("count", [7, 50, 101, 250, 333])
def test_a_draw_is_even_over_classes_and_folds(count):
    """As in ESC-50, files are listed fold by fold, so that the first clips of each class are of the first folds."""
    clips = [Clip(f"{f}-{k}-{i}", "x.wav", f"c{k:02d}", fold=f) for f in range(1, 6) for k in range(10) for i in range(8)]
    data = make_dataset("test", clips, folds="official")
    drawn = data.limited(count)
    for counted in (
        Counter(c.label for c in drawn.clips),
        Counter(c.fold for c in drawn.clips),
        *(Counter(c.fold for c in drawn.clips if c.label == label) for label in data.labels if count >= 50),
    ):
        assert max(counted.values()) - min(counted.values()) <= 1
    assert len(drawn) == count
    assert {c.fold for c in data.limited(50, "first").clips} == {1}


def test_a_draw_takes_what_rare_classes_and_folds_have():
    clips = [Clip(f"a{i}", "x.wav", "a", fold=1 + i % 5) for i in range(50)] + [Clip(f"b{i}", "x.wav", "b", fold=2) for i in range(3)]
    drawn = make_dataset("test", clips, folds="official").limited(20)
    assert Counter(c.label for c in drawn.clips) == {"a": 17, "b": 3}
    assert sorted(Counter(c.fold for c in drawn.clips if c.label == "a").values()) == [3, 3, 3, 4, 4]


def test_only_drops_classes_that_vanish():
    kept = dataset("a", "b", "b").only(lambda c: c.label == "b", "just b")
    assert kept.labels == ("b",)
    assert kept.targets.tolist() == [0, 0]
    assert kept.notes == {"only": "just b"}
