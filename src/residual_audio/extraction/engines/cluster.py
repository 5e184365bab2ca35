"""A Ray to work on: this process's own, one at an address, or one started here; quiet, and closed again."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from urllib.parse import urlsplit

from ..shard import ExtractionError

CONNECT_SECONDS = 10
# A Ray of this machine alone has no business on its network. The address alone is not enough: Ray turns the loopback address into the
# one by which others reach this machine, unless it is told that there are no others.
HERE = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
ALONE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


def import_ray() -> Any:
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ExtractionError(f'engine ray is not installed ({error}); pip install "residual-audio[ray]"') from error
    return ray


@contextmanager
def muted_backend() -> Iterator[None]:
    """Let Ray's C++ side start without a word, and stay so: it writes past every Python logger to file descriptor 2.

    How much it writes it reads from the environment when it starts, and even says that it did; errors come as exceptions.
    """
    name = "RAY_BACKEND_LOG_LEVEL"
    chosen = name in os.environ
    os.environ.setdefault(name, "fatal")
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
        if not chosen:
            del os.environ[name]


def connect(ray: Any, address: str, **options: Any) -> None:
    """Start or join a Ray, or say why not; Ray itself waits more than ten minutes for a machine that does not answer."""
    place = urlsplit(address if "://" in address else f"//{address}")
    try:
        if place.port:
            socket.create_connection((place.hostname, place.port), CONNECT_SECONDS).close()
        with muted_backend():
            ray.init(address, logging_level=logging.ERROR, log_to_driver=False, **options)
    except (OSError, RuntimeError, ValueError, ImportError) as error:
        token = "auth" in f"{error} {error.__cause__}".lower()
        hint = "; it asks for a token: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to the cluster's" if token else ""
        raise ExtractionError(f"no Ray at {address!r}: {error}{hint}") from error


@contextmanager
def cluster(ray: Any, address: str | None) -> Iterator[bool]:
    """A Ray to work on, and whether it is our own: the one this process has, the one at ``address``, or one started here.

    What was opened is closed again; a Ray that this process had already is left as it was.
    """
    if ray.is_initialized():
        yield False
        return
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    own = address == "local"
    with alone(ray) if own else nullcontext():
        connect(ray, address, **(HERE if own else {}))
        try:
            yield own
        finally:
            ray.shutdown()


@contextmanager
def alone(ray: Any) -> Iterator[None]:
    """A Ray that is started here listens on the loopback interface only, and asks for a token that nobody else has."""
    constants = ray._private.ray_constants
    asked = {ALONE: "0", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    if "RAY_AUTH_MODE" in os.environ:  # the user decides
        asked = {ALONE: "0"}
    before, cluster_wide = {name: os.environ.get(name) for name in asked}, constants.ENABLE_RAY_CLUSTER
    os.environ.update(asked)
    constants.ENABLE_RAY_CLUSTER = False  # was read from the environment when ray was imported
    read_again(ray)
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = cluster_wide
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        read_again(ray)


def read_again(ray: Any) -> None:
    """Ray reads the mode of authentication and the token once; let it look at the environment again."""
    ray._raylet.Config.initialize("")
    ray._raylet.AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def quiet(ray: Any) -> Iterator[None]:
    """No progress bars and no reports of Ray's own; both are as before afterwards."""
    context, logger = ray.data.DataContext.get_current(), logging.getLogger("ray.data")
    names = [n for n in ("enable_progress_bars", "print_on_execution_start") if hasattr(context, n)]
    before, level = {n: getattr(context, n) for n in names}, logger.level
    logger.setLevel(logging.CRITICAL)
    for name in names:
        setattr(context, name, False)
    try:
        yield
    finally:
        logger.setLevel(level)
        for name, value in before.items():
            setattr(context, name, value)


def room(ray: Any, cpus: float, gpus: float) -> int:
    """How many actors the cluster has room for as it is now."""
    total = ray.cluster_resources()
    places = [int(total.get(kind, 0) // need) for kind, need in (("CPU", cpus), ("GPU", gpus)) if need]
    return min(places) if places else 1
