"""Peak memory of a piece of work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EVERY = 0.02
STATUS = Path("/proc/self/statm")
PAGE = 4096


def resident() -> int:
    """Bytes in memory now; 0 where the system does not tell."""
    return int(STATUS.read_text().split()[1]) * PAGE if STATUS.exists() else 0


@contextmanager
def watched_memory() -> Iterator[list[int]]:
    """Yields a list whose one entry is the most memory that was in use meanwhile."""
    peak, done = [resident()], threading.Event()

    def watch() -> None:
        while not done.wait(EVERY):
            peak[0] = max(peak[0], resident())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()
        peak[0] = max(peak[0], resident())
