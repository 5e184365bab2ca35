"""Who may ask: looked at before anything of a request is read.

- **Host**: only names of this server. A page elsewhere whose name was turned to our address (DNS rebinding) sends its own name.
- **Origin, Sec-Fetch-Site**: a browser says which page asks; only our own may. Other ports of this machine are other sites.
- **Token**: beyond loopback, a secret made at the start; compared in constant time.
- **Rate and size**: per address; bodies are counted as they come, whatever their header says.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from .limits import JSON_BYTES, Limits
from .problems import Problem, busy

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
log = logging.getLogger("residual_audio.serve")

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass
class Rates:
    """A bucket per address that fills at ``rate``; the addresses that were not heard of for long are forgotten."""

    rate: float
    buckets: dict[str, tuple[float, float]] = field(default_factory=dict)

    def take(self, who: str, now: float) -> bool:
        if len(self.buckets) > 10_000:
            self.buckets = {k: v for k, v in self.buckets.items() if now - v[1] < 10}
        left, at = self.buckets.get(who, (2 * self.rate, now))
        left = min(2 * self.rate, left + (now - at) * self.rate)
        self.buckets[who] = (left - 1 if left >= 1 else left, now)
        return left >= 1


class Guard:
    """An ASGI application around another one. ``names``: host names beside addresses that the server answers to, at its port;
    ``others``: those of a proxy before it, whose port is its own."""

    def __init__(
        self, app: Any, *, port: int, names: tuple[str, ...], any_address: bool, token: str | None, limits: Limits,
        others: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.app, self.port, self.names, self.any_address, self.token, self.limits = app, port, names, any_address, token, limits
        self.others = others
        self.rates = Rates(limits.rate)
        self.cookie = f"residual_audio_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        begun = False

        async def dressed(message: MutableMapping[str, Any]) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                own = {k.lower() for k, _ in message["headers"]}
                added = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.lower().encode() not in own]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        try:
            headers = read_headers(scope)
            if redirect := self.checked(scope, headers):
                await answer(dressed, *redirect)
                return
            await self.app(scope, self.counted(scope, headers, receive), dressed)
        except Problem as problem:
            if not begun:
                await answer(dressed, problem.status, problem.body, problem.headers)
        except Exception:  # one request's bug is no other's
            log.exception("%s %s failed", scope["method"], scope["path"])
            if not begun:
                await answer(dressed, 500, {"error": "the server failed on this request; its log says why"}, {})

    def checked(self, scope: Scope, headers: dict[str, str]) -> tuple[int, dict[str, Any], dict[str, str]] | None:
        """Refuse, or pass; or the answer that takes a token from the address into a cookie."""
        client = (scope.get("client") or ("?", 0))[0]
        if not self.rates.take(client, time.monotonic()):
            raise busy("too many requests; wait a moment", status=429)
        self.check_host(headers.get("host", ""))
        self.check_site(scope, headers)
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0] if scope["path"] == "/" else ""
        if self.token is None:
            return None
        if given:
            if not same(given, self.token):
                raise Problem(401, "wrong token; open the address that the server printed when it started")
            cookie = f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"
            return 303, {"see": "/"}, {"Location": "/", "Set-Cookie": cookie}
        if not any(same(one, self.token) for one in self.tokens(headers)):
            raise Problem(401, "a token is needed; open the address that the server printed when it started", www_authenticate="Bearer")
        return None

    def tokens(self, headers: dict[str, str]) -> list[str]:
        kind, _, value = headers.get("authorization", "").partition(" ")
        found = [value.strip()] if kind.lower() == "bearer" else []
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return found
        return found + ([cookies[self.cookie].value] if self.cookie in cookies else [])

    def check_host(self, host: str) -> None:
        name, port = split_host(host)
        if name in self.others or (port == self.port and (name in self.names or (self.any_address and is_address(name)))):
            return
        raise Problem(421, "this server does not answer to that host name; --allow-host adds one")

    def check_site(self, scope: Scope, headers: dict[str, str]) -> None:
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and not self.own_origin(origin, headers["host"]):
            raise Problem(403, "only the server's own page may ask")
        reading = scope["method"] in ("GET", "HEAD")
        page = reading and not scope["path"].startswith("/api")
        # A link elsewhere may open a page of ours; it may not ask, and it may not be part of another page.
        opens = page and headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        if site is not None and site not in ("same-origin", "none") and not opens:
            raise Problem(403, "only the server's own page may ask")

    def own_origin(self, origin: str, host: str) -> bool:
        try:
            parts = urlsplit(origin)
            return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()
        except ValueError:
            return False

    def counted(self, scope: Scope, headers: dict[str, str], receive: Receive) -> Receive:
        """The body, of the right type, as long as it is no larger than it may be."""
        upload = scope["path"].rpartition("/")[2] == "sounds"
        most = self.limits.bytes if upload else JSON_BYTES
        told = headers.get("content-length", "0")
        if not told.isdigit() or len(told) > 15:
            raise Problem(400, "the length of the body makes no sense")
        if int(told) > most:
            raise Problem(413, f"the body has more than {most:,} bytes", connection="close")
        if scope["method"] in ("POST", "PUT", "PATCH"):
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            wanted = "application/octet-stream" if upload else "application/json"
            if kind != wanted:
                raise Problem(415, f"expected a body of type {wanted}")
        seen = 0

        async def next_part() -> MutableMapping[str, Any]:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > most:
                raise Problem(413, f"the body has more than {most:,} bytes", connection="close")
            return message

        return next_part


def same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def read_headers(scope: Scope) -> dict[str, str]:
    """By small names; one that says who asks may be there once."""
    found: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1").lower()
        if name in found and name in ("host", "origin", "content-length", "authorization", "sec-fetch-site", "content-type"):
            raise Problem(400, f"the header {name} is there twice")
        found[name] = f"{found[name]}; {value.decode('latin-1')}" if name in found else value.decode("latin-1")
    return found


def split_host(host: str) -> tuple[str, int]:
    """Name and port of a Host header; a name that is none is empty."""
    try:
        parts = urlsplit(f"//{host}")
        port = 80 if parts.port is None else parts.port
    except ValueError:
        return "", 0
    plain = parts.username is None and parts.password is None and not parts.path and not parts.query
    return (parts.hostname or "" if plain else ""), port


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def answer(send: Send, status: int, body: dict[str, Any], headers: dict[str, str]) -> None:
    data = json.dumps(body).encode()
    named = {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}
    await send({"type": "http.response.start", "status": status, "headers": [(k.encode(), v.encode("latin-1")) for k, v in named.items()]})
    await send({"type": "http.response.body", "body": data})
