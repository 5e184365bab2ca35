"""The one way from sources to batches: decode and transform in threads, ahead of the model, in order, a bounded number at a time."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..audio.policy import Prepared
from ..media import MediaError, reading

if TYPE_CHECKING:
    from .encoder import Encoder

Outcome = Prepared | MediaError


def default_workers() -> int:
    return max(1, min(8, os.cpu_count() or 1))


def prepared_ahead(
    sources: Iterable[Any], prepare: Callable[[Any], Prepared], workers: int | None = None, ahead: int = 32
) -> Iterator[Outcome]:
    """``prepare(source)`` for each source, in order; a clip that cannot be read, for whatever reason, comes out as its error.

    At most ``ahead`` clips are held, so memory does not depend on how many there are.
    """

    def attempt(source: Any) -> Outcome:
        try:
            with reading(source):
                return prepare(source)
        except MediaError as error:
            return error

    pending: deque[Future[Outcome]] = deque()
    iterator = iter(sources)
    pool = ThreadPoolExecutor(workers or default_workers(), thread_name_prefix="prepare")
    try:
        pending.extend(pool.submit(attempt, s) for s in islice(iterator, ahead))
        while pending:
            outcome = pending.popleft().result()
            pending.extend(pool.submit(attempt, s) for s in islice(iterator, 1))
            yield outcome
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@dataclass(frozen=True)
class Batch:
    """A fixed stretch of the sources: ``clips`` that could be read with their ``rows``, and the ``errors`` of the others by row."""

    rows: list[int] = field(default_factory=list)
    clips: list[Prepared] = field(default_factory=list)
    errors: dict[int, MediaError] = field(default_factory=dict)

    def __len__(self) -> int:
        """Sources in this stretch, readable or not."""
        return len(self.rows) + len(self.errors)


def batches(sources: Iterable[Any], prepare: Callable[[Any], Prepared], size: int, workers: int | None = None) -> Iterator[Batch]:
    """The sources ``size`` at a time, cut at fixed places: which clips meet in a batch does not depend on which can be read.

    Invariant: every source is in exactly one batch, among its clips or its errors.
    """
    batch = Batch()
    for row, outcome in enumerate(prepared_ahead(sources, prepare, workers, ahead=2 * size)):
        if isinstance(outcome, MediaError):
            batch.errors[row] = outcome
        else:
            batch.rows.append(row)
            batch.clips.append(outcome)
        if len(batch) == size:
            yield batch
            batch = Batch()
    if len(batch):
        yield batch


def as_batch(
    encoder: Encoder, clips: Sequence[Prepared]
) -> tuple[Float[Tensor, "window channel frame mel"], Bool[Tensor, " window"], list[int]]:
    """Model inputs of several clips, and how many windows each has."""
    windows = [len(p.features) for p in clips]
    features = torch.cat([p.features for p in clips]).to(encoder.device, encoder.dtype)
    longer = torch.tensor([p.longer for p, w in zip(clips, windows, strict=True) for _ in range(w)], device=encoder.device)
    return features, longer, windows
