from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from residual_audio.data import Clip, DataError, Dataset, clean_label, grouped_folds, make_dataset, stratified_folds


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


@pytest.mark.parametrize("count", [2, 5])
def test_stratified_folds_are_balanced_and_repeatable(count):
    labels = ["a"] * 23 + ["b"] * 40 + ["c"] * 7
    folds = stratified_folds(labels, count, seed=3)
    assert folds == stratified_folds(labels, count, seed=3) != stratified_folds(labels, count, seed=4)
    for label in "abc":
        sizes = Counter(f for f, own in zip(folds, labels, strict=True) if own == label)
        assert set(sizes) == set(range(1, count + 1))
        assert max(sizes.values()) - min(sizes.values()) <= 1


def test_grouped_folds_keep_groups_together_and_classes_spread():
    labels = [c for c in "ab" for _ in range(30)]
    groups = [f"{label}{i // 3}" for i, label in enumerate(labels)]
    folds = grouped_folds(labels, groups)
    assert len(set(zip(groups, folds, strict=True))) == len(set(groups))
    for label in "ab":
        assert Counter(f for f, own in zip(folds, labels, strict=True) if own == label) == dict.fromkeys(range(1, 6), 6)


def test_limited_takes_the_first_of_each_class_in_turn():
    data = dataset("a", "a", "a", "b", "b", "c")
    assert [c.id for c in data.limited(4).clips] == ["0", "1", "3", "5"]
    assert data.limited(2).labels == ("a", "b")
    assert len(data.limited(99)) == 6
    assert data.limited(4).notes == {"limit": 4}


def test_limited_with_a_seed_is_random_even_and_in_order():
    data = dataset(*(c for c in "abc" for _ in range(50)))
    drawn = data.limited(30, seed=1)
    assert Counter(c.label for c in drawn.clips) == {"a": 10, "b": 10, "c": 10}
    assert drawn.clips == data.limited(30, seed=1).clips != data.limited(30, seed=2).clips
    assert drawn.clips != data.limited(30).clips
    assert np.all(np.diff([int(c.id) for c in drawn.clips]) > 0)
    assert drawn.notes == {"limit": 30, "limit_seed": 1}


def test_only_drops_classes_that_vanish():
    kept = dataset("a", "b", "b").only(lambda c: c.label == "b", "just b")
    assert kept.labels == ("b",)
    assert kept.targets.tolist() == [0, 0]
    assert kept.notes == {"only": "just b"}
