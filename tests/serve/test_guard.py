"""Tokens, rates and bugs: the guard in front of a small application, on a real socket."""

import http.client
import json
import time
from contextlib import ExitStack

import pytest

from residual_audio.serve.guard import Guard, Rates, is_loopback, split_host
from residual_audio.serve.limits import Limits
from tests.helpers.serving import listening

TOKEN = "a-token-that-nobody-guesses"


async def echo(scope, receive, send):
    """Answers with what it was sent, or fails where it is told to."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    if scope["path"] == "/bug":
        raise RuntimeError("a bug")
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"inside"})


@pytest.fixture
def guarded():
    """``guarded(token=…, rate=…)`` → a function that asks."""
    stack = ExitStack()

    def start(token=None, rate=1000, any_address=False, names=("127.0.0.1", "localhost")):
        limits = Limits(rate=rate)
        port = stack.enter_context(
            listening(lambda port: Guard(echo, port=port, names=names, any_address=any_address, token=token, limits=limits))
        )

        def ask(path="/", method="GET", **headers):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request(method, path, headers={k.replace("_", "-"): v.replace("PORT", str(port)) for k, v in headers.items()})
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, body

        return ask

    with stack:
        yield start


class TestTheToken:
    def test_nothing_is_answered_without_it(self, guarded):
        ask = guarded(token=TOKEN)
        for path in ("/", "/api", "/r/x/", "/?token=", "/?token=wrong", f"/api?token={TOKEN}"):
            status, _, body = ask(path)
            assert status == 401, path
            assert TOKEN not in body.decode()

    @pytest.mark.parametrize("wrong", ["", "x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "ä"])
    def test_a_wrong_one_is_refused(self, guarded, wrong):
        ask = guarded(token=TOKEN)
        assert ask("/api", Authorization=f"Bearer {wrong}")[0] == 401
        assert ask("/api", Authorization=f"Basic {TOKEN}")[0] == 401

    def test_the_right_one_lets_in_as_header_or_cookie(self, guarded):
        ask = guarded(token=TOKEN)
        assert ask("/api", Authorization=f"Bearer {TOKEN}")[2] == b"inside"
        status, headers, _ = ask(f"/?token={TOKEN}")
        assert (status, headers["location"]) == (303, "/")
        cookie, _, rules = headers["set-cookie"].partition("; ")
        assert "HttpOnly" in rules
        assert "SameSite=Strict" in rules
        assert ask("/api", Cookie=cookie)[2] == b"inside"
        assert ask("/api", Cookie=cookie.replace(TOKEN, "x"))[0] == 401

    def test_it_does_not_stand_for_the_other_checks(self, guarded):
        ask = guarded(token=TOKEN)
        assert ask("/api", Authorization=f"Bearer {TOKEN}", Origin="http://evil.example")[0] == 403
        assert ask("/api", Authorization=f"Bearer {TOKEN}", Host="evil.example:PORT")[0] == 421


def test_beyond_loopback_addresses_are_names_and_names_are_not(guarded):
    ask = guarded(token=TOKEN, any_address=True, names=("0.0.0.0", "lab.example"))
    named = {"Authorization": f"Bearer {TOKEN}"}
    assert ask("/api", Host="192.0.2.7:PORT", **named)[0] == 200
    assert ask("/api", Host="lab.example:PORT", **named)[0] == 200
    assert ask("/api", Host="evil.example:PORT", **named)[0] == 421


def test_too_many_requests_are_told_to_wait_and_then_answered(guarded):
    ask = guarded(rate=5)
    answers = [ask("/") for _ in range(40)]
    refused = [headers for status, headers, _ in answers if status == 429]
    assert answers[0][0] == 200
    assert refused
    assert int(refused[0]["retry-after"]) >= 1
    time.sleep(1.5)
    assert ask("/")[0] == 200


def test_a_bucket_fills_again_and_is_of_one_address():
    rates = Rates(10)
    assert [rates.take("a", 0.0) for _ in range(21)] == [True] * 20 + [False]
    assert rates.take("b", 0.0)
    assert rates.take("a", 0.11)
    assert not rates.take("a", 0.11)


def test_strangers_are_forgotten():
    rates = Rates(10)
    for number in range(20_000):
        rates.take(str(number), number / 10)
    assert len(rates.buckets) <= 10_001


def test_a_bug_in_one_request_is_one_answer(guarded):
    ask = guarded()
    status, _, body = ask("/bug")
    assert status == 500
    assert "bug" not in json.loads(body)["error"]
    assert ask("/")[0] == 200


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("localhost.evil.example", False)],
)
def test_loopback(host, loopback):
    assert is_loopback(host) == loopback


@pytest.mark.parametrize(
    ("host", "found"), [("a:1", ("a", 1)), ("[::1]:8", ("::1", 8)), ("A", ("a", 80)), ("a:x", ("", 0)), ("u@a:1", ("", 1))]
)
def test_hosts_are_split(host, found):
    assert split_host(host) == found


def test_a_proxys_name_has_its_own_port():
    """Behind a proxy with TLS the browser says the proxy's name, with no port or with the proxy's."""
    from residual_audio.serve.guard import Guard
    from residual_audio.serve.limits import Limits
    from residual_audio.serve.problems import Problem

    guard = Guard(None, port=8765, names=("localhost",), any_address=False, token="x", limits=Limits(), others=("audio.example.org",))
    for host in ("audio.example.org", "audio.example.org:443", "localhost:8765"):
        guard.check_host(host)
    for host in ("localhost", "localhost:1", "evil.example.org"):
        with pytest.raises(Problem):
            guard.check_host(host)
