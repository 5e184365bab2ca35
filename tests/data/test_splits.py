"""Every splitter on groups of any shape: no group in two parts, every class spread, sizes even."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from residual_audio.data import Clip, grouped_folds, grouped_parts, in_folds, stratified_folds

# (class, group) of each row: groups of any size, some of them in several classes.
rows = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 12)), min_size=1, max_size=120)
shares = st.lists(st.integers(1, 4), min_size=2, max_size=5)


@settings(max_examples=200, deadline=None)
@given(rows, shares, st.integers(0, 5))
def test_no_group_is_in_two_parts(rows, shares, seed):
    labels, groups = zip(*rows, strict=True)
    part = grouped_parts(labels, groups, shares, seed)
    assert part == grouped_parts(labels, groups, shares, seed)
    assert set(part) <= set(range(len(shares)))
    assert len(set(zip(groups, part, strict=True))) == len(set(groups))
    assert {f - 1 for f in grouped_folds(labels, groups, 3, seed)} == set(grouped_parts(labels, groups, (1, 1, 1), seed))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=150), st.integers(2, 6), st.integers(0, 5))
def test_without_groups_no_two_parts_differ_by_more_than_one(labels, count, seed):
    folds = np.array(stratified_folds(labels, count, seed))
    for rows in (np.array(labels) == label for label in {*labels}):
        sizes = np.bincount(folds[rows], minlength=count + 1)[1:]
        assert np.ptp(sizes) <= 1
    assert np.ptp(np.bincount(folds, minlength=count + 1)[1:]) <= 1


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=12), min_size=1, max_size=4), st.integers(2, 5), st.integers(0, 5))
def test_classes_of_groups_differ_by_no_more_than_their_largest_group(sizes, count, seed):
    cells = [(c, f"{c}-{g}") for c, own in enumerate(sizes) for g, n in enumerate(own) for _ in range(n)]
    labels, groups = zip(*cells, strict=True)
    folds = np.array(grouped_folds(labels, groups, count, seed))
    for c, own in enumerate(sizes):
        in_class = np.bincount(folds[np.array(labels) == c], minlength=count + 1)[1:]
        assert np.ptp(in_class) <= max(own)
        if len(own) >= count:
            assert in_class.min() > 0, "a class with enough groups is in every fold"


def test_the_first_group_of_a_class_goes_to_the_largest_part():
    labels = ["a"] * 9 + ["b"] * 2 + ["c"] * 10
    groups = ["a1"] * 9 + ["b1", "b2"] + [f"c{i}" for i in range(10)]
    part = np.array(grouped_parts(labels, groups, (1, 3, 1)))
    assert (part[:9] == 1).all()
    assert 1 in part[9:11]
    assert np.bincount(part[11:]).tolist() == [2, 6, 2]


def test_remainders_do_not_pile_up():
    """Seven clips in each of 40 classes: the two left over went into folds 1 and 2 of every class, 80 and 40 clips instead of 56."""
    folds = stratified_folds([f"class {i % 40}" for i in range(280)])
    assert Counter(folds) == dict.fromkeys(range(1, 6), 56)
    clips = [Clip(str(i), "x.wav", f"class {i % 40}", group=f"g{i // 2}") for i in range(280)]
    assert max(sizes := Counter(c.fold for c in in_folds(clips)).values()) - min(sizes) <= 2


def test_another_seed_is_another_split_even_of_groups_of_different_sizes():
    groups = [f"g{i}" for i in range(8, 24) for _ in range(i)]
    splits = {tuple(grouped_folds(["a"] * len(groups), groups, 5, seed)) for seed in range(5)}
    assert len(splits) == 5


@pytest.mark.parametrize("name", ["nsynth", "philharmonia", "nonverbal"])
def test_real_groups(shared, name):
    """Instruments, pitches and speakers (of whom some are in seven classes): folds made of them, and the folds that came with them."""
    table = shared / "data" / name / "clips.csv"
    if not table.is_file():
        pytest.skip(f"no {name} beside the project")
    from residual_audio.data import load_dataset

    data = load_dataset(str(table))
    assert len(set(data.groups)) == {"nsynth": 53, "philharmonia": 514, "nonverbal": 410}[name]
    assert "groups_in_several_folds" not in data.notes
    made = in_folds(data.clips)
    assert len({(c.group, c.fold) for c in made}) == len(set(data.groups))
    sizes = np.bincount([c.fold for c in made])[1:]
    assert np.ptp(sizes) <= max(Counter(data.groups).values())
