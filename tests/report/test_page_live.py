"""One set of page code: the static page has none of what talks to a server, the live one may talk to its own and nobody else."""

import re

import pytest

from residual_audio.models import load_encoder
from residual_audio.report.page import model_data, rendered, start_page
from residual_audio.report.page.page import HERE, LIVE, SCRIPTS, allowed


@pytest.fixture(scope="module")
def data():
    return model_data(load_encoder("tiny"), "tiny <b>")


def policy(html):
    return re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html).group(1)


def own_script(html):
    return re.search(r"</script>\n<script>(.*?)</script>", html, re.S).group(1)


def test_the_static_page_cannot_ask_anybody(data):
    html = rendered(data)
    assert "connect-src" not in policy(html)
    assert policy(html).startswith("default-src 'none'")
    for call in ("fetch(", "XMLHttpRequest", "WebSocket", "sendBeacon", "EventSource", "import("):
        assert call not in own_script(html)


def test_the_live_page_asks_its_own_server_only(data):
    html = rendered({**data, "live": {"api": "/api/x"}})
    rules = dict(rule.strip().split(" ", 1) for rule in policy(html).split(";"))
    assert rules["connect-src"] == "'self'"
    assert rules["default-src"] == "'none'"
    assert allowed(own_script(html)) in rules["script-src"]
    assert "unsafe" not in rules["script-src"]


def test_what_both_pages_have_is_the_same_code(data):
    static, live = own_script(rendered(data)), own_script(rendered({**data, "live": {"api": "/api/x"}}))
    for name in SCRIPTS:
        text = (HERE / name).read_text(encoding="utf-8")
        assert text in static
        assert text in live
    assert {one for some in LIVE.values() for one in some} | set(SCRIPTS) == {path.name for path in HERE.glob("*.js")}


def test_nothing_becomes_markup(data):
    """Labels reach the page as text only: no script writes HTML."""
    for path in HERE.glob("*.js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", path.read_text(encoding="utf-8")
        ), path
    html = rendered(data)
    assert "<title>tiny &lt;b&gt;</title>" in html


def test_the_start_page_has_no_script_and_escapes_names():
    entries = [
        {"url": "/r/a/", "title": "<script>alert(1)</script>", "model": "tiny", "dataset": "notes", "clips": 100, "heads": 184},
        {"url": "/r/b/", "title": "b", "model": "whisper", "has_text": False},
    ]
    html = start_page("runs & models", entries)
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "100 clips, 184 heads" in html
    assert html.count("no text side") == 1
    assert "neither a run nor a model" in start_page("none", [])
