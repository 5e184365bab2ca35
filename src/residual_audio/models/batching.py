"""Decode and transform clips in threads, ahead of the model, in order, a bounded number at a time."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

from ..audio.decode import AudioSource
from ..audio.policy import Prepared
from ..media import MediaError

Outcome = Prepared | MediaError


def default_workers() -> int:
    return max(1, min(8, os.cpu_count() or 1))


def prepared_ahead(
    sources: Iterable[AudioSource], prepare: Callable[[AudioSource], Prepared], workers: int | None = None, ahead: int = 32
) -> Iterator[Outcome]:
    """``prepare(source)`` for each source, in order; a clip that cannot be read comes out as its error.

    At most ``ahead`` clips are held, so memory does not depend on how many there are.
    """

    def attempt(source: AudioSource) -> Outcome:
        try:
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
