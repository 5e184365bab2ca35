"""Start: open runs and models, bind an address, answer until told to end."""

from __future__ import annotations

import secrets
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..lazy import need
from .guard import Guard, is_loopback
from .limits import Limits
from .problems import ServeError

PORT = 8765
GRACE = 5  # seconds for requests under way when the server ends


def serve(
    targets: Sequence[str | Path],
    *,
    adapter: str | Path | None = None,
    data: str | None = None,
    folder: str | Path = "live",
    host: str = "127.0.0.1",
    port: int = PORT,
    token: bool = False,
    allow_host: Sequence[str] = (),
    clips: int = 100,
    words: int = 300,
    template: str | None = None,
    limit: int | None = None,
    device: str = "cpu",
    limits: Limits = Limits(),
    tell: Callable[[str], object] = print,
) -> None:
    """Serve the pages of runs, or of models, until SIGINT or SIGTERM.

    - ``targets``: runs of `residual-audio extract`, or models; a model is first run on ``data`` (at most ``limit`` clips), into ``folder``;
    - ``adapter``: shown on every page that it was made for;
    - ``folder``: where adapters, labels and extractions go; nothing is written elsewhere;
    - ``host``: beyond loopback a token is needed, which is made here and told once; ``token``: on loopback too;
    - ``allow_host``: further names that the server answers to;
    - ``clips``: shown on the page and run by its equaliser; ``words``: of the dictionary, packed for Ask.
    """
    need("serve", "fastapi", "uvicorn")
    need("report", "plotly", "jinja2")
    import uvicorn

    from .folder import Folder
    from .opening import open_entries, order_of

    with Folder(Path(folder)).held() as place, bound(host, port) as listening:
        entries = open_entries(targets, place, adapter, data, clips, words, template, limit, device, limits)
        from .app import application

        address, number = listening.getsockname()[:2]
        # Whoever has another name for this server has somebody in front of it who lets others in.
        secret = secrets.token_urlsafe(24) if token or allow_host or not is_loopback(host) else None
        names = ("localhost", "127.0.0.1", "::1") if is_loopback(host) else (host.lower(),)
        app = Guard(
            application(entries, place, limits, "ResiDual Audio", lambda entry: order_of(entry, device, template)),
            port=number, names=names, others=tuple(map(str.lower, allow_host)), any_address=not is_loopback(host), token=secret,
            limits=limits,
        )  # fmt: skip
        config = uvicorn.Config(
            app, log_level="warning", http="h11", ws="none", server_header=False, proxy_headers=False, limit_concurrency=1024,
            timeout_keep_alive=30, timeout_graceful_shutdown=GRACE, h11_max_incomplete_event_size=32_768, access_log=False,
        )  # fmt: skip
        listening.listen(512)  # whoever comes from now on waits until the first request can be answered
        shown = f"[{address}]" if ":" in address else address
        tell(f"http://{shown}:{number}/{f'?token={secret}' if secret else ''}")
        before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            uvicorn.Server(config).run(sockets=[listening])
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)


def bound(host: str, port: int) -> Any:
    """The socket, before anything heavy is opened."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family)
    with suppress(OSError):
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except (OSError, OverflowError) as error:
        made.close()
        raise ServeError(f"{host}:{port} cannot be listened to ({error}); choose another --port (0: any that is free) or --host") from error
    return made
