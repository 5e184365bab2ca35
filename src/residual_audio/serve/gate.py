"""The one thread that touches models."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .problems import busy


class Gate:
    """The one thread that touches models, and how many may wait for it."""

    def __init__(self, waiting: int) -> None:
        self.waiting, self.count = waiting, 0
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="model")

    async def __call__(self, work: Callable[..., Any], *args: Any) -> Any:
        if self.count >= self.waiting:
            raise busy(f"{self.waiting} requests wait for the model already; try again")
        self.count += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.pool, lambda: work(*args))
        finally:
            self.count -= 1
