"""Whoever has gone is not worked for: a question that still waits is dropped, over a real socket; what is saved is saved."""

import http.client
import json
import threading
import time
from types import SimpleNamespace

import pytest

from residual_audio.models import load_encoder
from residual_audio.serve.app import application
from residual_audio.serve.entry import Entry
from residual_audio.serve.folder import Folder
from residual_audio.serve.limits import Limits
from residual_audio.serve.problems import Problem
from tests.helpers.serving import listening

PATIENCE = 60  # seconds, for a busy machine


@pytest.fixture
def held(tmp_path):
    """A server whose model thread stands still at every question until it is let go, and says what it was asked."""
    entry, seen, going, free = Entry("tiny", "tiny", load_encoder("tiny"), None, Limits()), [], threading.Event(), threading.Event()

    def board(name):
        seen.append(name)
        going.set()
        assert free.wait(PATIENCE)
        raise Problem(404, "seen")

    entry.board = board
    entry.changed = board  # what saving asks for
    app = application({"tiny": entry}, Folder(tmp_path / "live"), Limits(), "held", lambda entry: {})
    with listening(lambda port: app) as port:
        yield SimpleNamespace(port=port, seen=seen, going=going, free=free, gate=app.state.gate)
        free.set()


def asked(held, path: str, body: dict) -> http.client.HTTPConnection:
    """A question that is on its way: it runs, or waits."""
    before, connection = held.gate.count, http.client.HTTPConnection("127.0.0.1", held.port, timeout=PATIENCE)
    connection.request("POST", f"/api/tiny/{path}", json.dumps(body), {"Content-Type": "application/json"})
    until(lambda: held.gate.count > before)
    return connection


def until(true) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_question_that_nobody_waits_for_never_runs(held):
    first = asked(held, "equalise", {"adapter": "first"})
    assert held.going.wait(PATIENCE)
    asked(held, "equalise", {"adapter": "older-move"}).close()
    until(lambda: held.gate.count == 1)
    newest = asked(held, "equalise", {"adapter": "newer-move"})
    held.free.set()
    assert [one.getresponse().status for one in (first, newest)] == [404, 404]
    assert held.seen == ["first", "newer-move"]


def test_what_runs_already_and_what_is_saved_is_done_all_the_same(held):
    asked(held, "equalise", {"adapter": "first"}).close()
    assert held.going.wait(PATIENCE)
    asked(held, "adapters", {"name": "mine", "setting": {"adapter": "saved"}}).close()
    time.sleep(0.5)  # enough to notice that both have gone
    assert held.gate.count == 2
    held.free.set()
    until(lambda: held.gate.count == 0)
    assert [getattr(one, "adapter", one) for one in held.seen] == ["first", "saved"]
