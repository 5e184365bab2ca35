"""Reading grows with the number of clips, not with its square (benchmarks/large_run.py has 100,000 clips and 10,000 classes)."""

import sys

import pytest

from residual_audio.extraction import Run, extract
from residual_audio.models import load_encoder
from tests.helpers.large import large_dataset, large_run


def calls(work) -> int:
    """How many functions, Python's and C's, a piece of work calls."""
    count = 0

    def counted(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Twice as many clips in twice as many classes, and twice as many shards."""
    encoder, home = load_encoder("tiny"), tmp_path_factory.mktemp("large")
    both = {n: large_dataset(n, n // 10) for n in (2048, 4096)}
    return encoder, both, {n: large_run(encoder, data, home / str(n)).store.local for n, data in both.items()}


READERS = {
    "ids and classes": lambda encoder, data, folder: Run.open(folder).clips.label.nunique(),
    "arrays": lambda encoder, data, folder: Run.open(folder).array("embedding.joint")[:],
    "check": lambda encoder, data, folder: Run.open(folder).problems(),
    "extract again": lambda encoder, data, folder: extract(encoder, data, folder, ["embedding"]),
    "dataset": lambda encoder, data, folder: large_dataset(len(data), len(data) // 10).without({"clip/3"}).targets,
}


@pytest.mark.parametrize("reader", READERS)
def test_twice_the_clips_are_twice_the_work(reader, made):
    encoder, both, folders = made
    READERS[reader](encoder, both[2048], folders[2048])  # what is imported or cached is not counted
    small, large = (calls(lambda n=n: READERS[reader](encoder, both[n], folders[n])) for n in (2048, 4096))
    assert large < 2.3 * small, (small, large)


def test_rows_are_those_of_their_clips(made):
    _, _, folders = made
    run = Run.open(folders[2048])
    assert run.array("embedding.joint")[[0, 127, 128, 2047]][:, 0].tolist() == [0, 0, 1, 15]
    assert run.problems() == []
