"""Work on all cores, one item per core at a time: cores that share every small product wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits


@contextmanager
def one_core_each(workers: int | None = None) -> Iterator[ThreadPoolExecutor]:
    """A pool whose threads each compute on one core; as many as torch may use, where it is not said. Settings are restored afterwards."""
    before = torch.get_num_threads()
    try:
        with threadpool_limits(1), ThreadPoolExecutor(workers or before, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool
    finally:
        # The matrix library keeps one setting for all threads.
        torch.set_num_threads(before)
