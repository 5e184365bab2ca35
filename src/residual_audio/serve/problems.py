"""What goes wrong in a request, as a status and one sentence."""

from __future__ import annotations

from typing import Any


class ServeError(ValueError):
    """A server that cannot be started as asked for; the message says what to do next."""


class Problem(Exception):
    """A request that cannot be answered: its status, and one sentence for whoever asked."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    @property
    def body(self) -> dict[str, Any]:
        return {"error": self.message}


def busy(what: str, seconds: int = 1, status: int = 503) -> Problem:
    return Problem(status, what, retry_after=str(seconds))
