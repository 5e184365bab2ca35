"""Sources in batches that are cut at fixed places."""

import torch

from residual_audio.audio import Prepared
from residual_audio.media import MediaError
from residual_audio.models.batching import batches


def prepare(source: int) -> Prepared:
    if source % 3 == 1:
        raise MediaError(f"{source} is broken")
    return Prepared(torch.full((1, 1, 2, 2), float(source)), False)


def test_every_source_is_in_one_batch_at_its_place():
    """Which clips meet does not depend on which can be read."""
    cut = list(batches(range(11), prepare, 4, workers=3))
    assert [len(b) for b in cut] == [4, 4, 3]
    assert [b.rows for b in cut] == [[0, 2, 3], [5, 6], [8, 9]]
    assert [sorted(b.errors) for b in cut] == [[1], [4, 7], [10]]
    assert [str(e) for e in cut[1].errors.values()] == ["4 is broken", "7 is broken"]
    assert [int(p.features[0, 0, 0, 0]) for b in cut for p in b.clips] == [r for b in cut for r in b.rows]


def test_nothing_and_nothing_readable():
    assert list(batches([], prepare, 4)) == []
    (only,) = batches([1, 4], prepare, 4)
    assert (only.rows, only.clips, sorted(only.errors)) == ([], [], [0, 1])
