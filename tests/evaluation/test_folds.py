"""Parts for every kind of dataset: no group in two of them, nothing lost, every class to learn from."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from residual_audio.data import Clip, load_dataset, make_dataset
from residual_audio.evaluation import EvaluationError
from residual_audio.evaluation.folds import Parts, fold_parts, with_folds


def apart(parts: Parts, groups, few: bool) -> None:
    """No group is in two of the parts (of a few shots, the basis is training and stopping together)."""
    places = defaultdict(set)
    for name in ("train", "stop", "test") if few else ("basis", "train", "stop", "test"):
        for row in getattr(parts, name):
            places[groups[row]].add(name)
    split = {g: names for g, names in places.items() if len(names) > 1}
    assert not split


def dataset(rows):
    clips = [Clip(str(i), f"{i}.wav", f"class {c}", group="" if g is None else f"group {g}") for i, (c, g) in enumerate(rows)]
    return with_folds(make_dataset("made", clips), "official")


# (class, group) of each clip: alone, in groups of one class, or in groups over several.
alone = st.lists(st.tuples(st.integers(0, 3), st.none()), min_size=30, max_size=90)
over_classes = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), min_size=30, max_size=120)
within = over_classes.map(lambda rows: [(g % 4, g) for _, g in rows])


@settings(max_examples=60, deadline=None)
@given(alone | over_classes | within, st.integers(0, 3), st.sampled_from([None, 1, 2, 4, 8]))
def test_no_group_is_in_two_parts(rows, seed, shots):
    data = dataset(rows)
    try:
        every = list(fold_parts(data, seed, shots))
    except EvaluationError:
        return  # too few groups for separate parts, and it is told
    for fold, parts in every:
        apart(parts, data.groups, shots is not None)
        outside = np.array([c.fold for c in data.clips]) != fold
        assert not outside[parts.test].any()
        if shots is None:
            assert sorted(np.concatenate([parts.basis, parts.train, parts.stop])) == np.flatnonzero(outside).tolist()
        else:
            assert np.bincount(data.targets[parts.seen], minlength=4).max() <= shots
            assert sorted(np.concatenate([parts.train, parts.stop])) == parts.seen.tolist() == sorted(parts.basis)
        seen = set(data.targets[parts.seen])
        assert set(data.targets[parts.train]) == seen or shots is None, "every class that is seen is learned from"


def real(shared, name):
    table = shared / "data" / name / "clips.csv"
    if not table.is_file():
        pytest.skip(f"no {name} beside the project")
    return load_dataset(str(table))


@pytest.mark.parametrize("shots", [None, 4, 16])
@pytest.mark.parametrize("name", ["nsynth", "philharmonia", "nonverbal"])
def test_real_groups(shared, name, shots):
    data = real(shared, name)
    for _, parts in fold_parts(data, 0, shots):
        apart(parts, data.groups, shots is not None)
        if shots is None:
            part = np.array([len(parts.basis), len(parts.train), len(parts.stop)]) / len(parts.seen)
            np.testing.assert_allclose(part, [0.2, 0.6, 0.2], atol=0.1)
            assert set(data.targets[parts.train]) == set(data.targets[parts.seen])


@pytest.mark.parametrize("shots", [None, 4])
def test_recordings_of_esc50(shared, shots):
    """Four recordings lie in two official folds, under two classes; the folds stay as published, and the parts inside keep them whole."""
    if not (shared / "data" / "esc50").is_dir():
        pytest.skip("no ESC-50 beside the project")
    data = load_dataset("esc50", shared / "data" / "esc50")
    groups = data.groups
    for _, parts in fold_parts(data, 0, shots):
        inside = Parts(parts.basis, parts.train, parts.stop, np.zeros(0, dtype=int))
        apart(inside, groups, shots is not None)
        shared_groups = {groups[i] for i in parts.seen} & {groups[i] for i in parts.test}
        assert shared_groups <= {"131943", "134049", "209698", "234879"}


def test_parts_of_clips_without_groups_are_even():
    """48 clips in each of 12 classes: 9.6 for the basis and for stopping, in every class 9 or 10, and not 10 in all of them."""
    data = load_dataset("synthetic-timbre", per_class=60)
    for _, parts in fold_parts(data):
        assert [len(parts.basis), len(parts.train), len(parts.stop), len(parts.test)] == [115, 346, 115, 144]
        for part, sizes in ((parts.basis, {9, 10}), (parts.train, {28, 29}), (parts.stop, {9, 10})):
            assert set(np.bincount(data.targets[part]).tolist()) <= sizes


def test_a_class_of_one_group_is_learned_from_and_not_stopped_on():
    rows = [(0, 0)] * 8 + [(1, 1 + i // 2) for i in range(40)] + [(2, 50)] * 6
    data = dataset(rows)
    for shots in (None, 4):
        for _, parts in fold_parts(data, 0, shots):
            for c in (0, 2):
                assert c in data.targets[parts.train] or c not in data.targets[parts.seen]
                assert c not in data.targets[parts.stop]


def test_parts_of_the_report():
    """The first 250 clips of a training split give the basis, all others are learned from and stopped on; the test is apart."""
    clips = [Clip(str(i), f"{i}.wav", "ab"[i % 2], fold=1 + i % 5) for i in range(1000)]
    data = make_dataset("test", clips, "official")
    for fold, parts in fold_parts(data, parts="report"):
        split = np.array([i for i in range(1000) if 1 + i % 5 != fold])
        assert parts.basis.tolist() == split[:250].tolist()
        assert parts.train.tolist() == parts.stop.tolist() == split[250:].tolist()
        assert parts.trusting
        assert not set(parts.seen.tolist()) & set(parts.test.tolist())
        assert len(parts.seen) + len(parts.test) == 1000
    few = make_dataset("test", clips[:40], "official")
    assert all(len(parts.basis) == len(parts.train) == 16 for _, parts in fold_parts(few, parts="report")), "half of fewer than 500"
    assert not any(parts.trusting for _, parts in fold_parts(data))
