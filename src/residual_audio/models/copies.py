"""Copies of an encoder: with weights of its own, or one per core around the same weights."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch

from ..workers import one_core_each
from .encoder import Encoder
from .fused import fuse_copy


def copied(encoder: Encoder, shared: dict[int, Any] | None = None) -> Encoder:
    """An encoder of the same outputs whose weights can be changed; ``shared`` (by id) are not copied."""
    other = copy.copy(encoder)
    with torch.inference_mode(False):  # ordinary tensors, whoever asks: weights made under inference mode could never be trained
        other.module = copy.deepcopy(encoder.module, memo=shared)
    fuse_copy(encoder.module, other.module)
    return other


def twin(encoder: Encoder) -> Encoder:
    """A second set of modules around the same weights, so that two threads can each reach into their own."""
    return copied(encoder, {id(t): t for t in (*encoder.module.parameters(), *encoder.module.buffers())})


class Cores:
    """Shares clips out over the cores of a CPU, each through its own modules around the same weights.

    Cores that share every product wait for each other: a part of the clips each is a good deal faster. On other devices, or with a single
    thread, the encoder itself does everything. Each worker runs its own modules: hook the encoder passed to ``work``.
    """

    def __init__(self, encoder: Encoder, count: int | None = None) -> None:
        self.encoder = encoder
        self.count = (torch.get_num_threads() if count is None else count) if encoder.device.type == "cpu" else 1

    @cached_property
    def encoders(self) -> list[Encoder]:
        return [twin(self.encoder) for _ in range(self.count)] if self.count > 1 else [self.encoder]

    def map(self, work: Callable[..., Any], *columns: Sequence[Any]) -> list[Any]:
        """``work(encoder, *items)`` for every row of ``columns``, at most one per core at a time; results in order."""
        rows = list(zip(*columns, strict=True))
        if len(rows) > self.count:
            raise ValueError(f"{len(rows)} parts for {self.count} cores")
        if len(rows) < 2:
            return [work(self.encoders[0], *row) for row in rows]
        with one_core_each(len(rows)) as pool:
            return list(pool.map(lambda job: work(job[0], *job[1]), zip(self.encoders, rows, strict=False)))
