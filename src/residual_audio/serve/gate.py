"""The one thread that touches models."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Request

from .problems import Problem, busy


class Gate:
    """The one thread that touches models, and how many may wait for it."""

    def __init__(self, waiting: int) -> None:
        self.waiting, self.count = waiting, 0
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="model")

    async def __call__(self, work: Callable[..., Any], *args: Any, gone: Awaitable[object] | None = None) -> Any:
        """What ``work`` gives, when its turn has come; if ``gone`` comes first, it never runs. What runs is run to its end."""
        if self.count >= self.waiting:
            raise busy(f"{self.waiting} requests wait for the model already; try again")
        self.count += 1
        turn = self.pool.submit(work, *args)
        answer = asyncio.wrap_future(turn)
        left = asyncio.ensure_future(gone) if gone is not None else None
        try:
            await asyncio.wait({answer, left} if left is not None else {answer}, return_when=asyncio.FIRST_COMPLETED)
            if turn.cancel():
                raise Problem(499, "nobody waits for the answer any more")
            return await answer
        finally:
            self.count -= 1
            if left is not None:
                left.cancel()


async def disconnected(request: Request) -> None:
    """Returns when the client has gone: its page was closed, or has a newer question."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def asking(work: Callable[..., Any], *args: Any, request: Request) -> Any:
    return await request.app.state.gate(work, *args, gone=disconnected(request))


def turn_of(request: Request) -> Callable[..., Awaitable[Any]]:
    return partial(asking, request=request)


# For questions: the gate, for as long as somebody waits for the answer. What is saved or deleted is done whoever waits.
Turn = Annotated[Callable[..., Awaitable[Any]], Depends(turn_of)]
