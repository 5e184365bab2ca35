"""A server may send without end, drip, cut or say nothing: a download ends all the same, and takes no more than it may."""

import hashlib
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import pytest

from residual_audio.data import DATASETS, DataError, Published, fetch
from residual_audio.data.fetch import Remote, download

BODY = b"x" * 5000


class Hostile(BaseHTTPRequestHandler):
    """``/endless``, ``/drip`` (a byte now and then), ``/cut`` (a byte per connection), ``/silent``, ``/liar`` (says a length, sends on)."""

    def do_GET(self):
        self.server.asked.append(self.path)
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        way = self.path.strip("/")
        if way == "silent":
            self.server.over.wait(30)
            return
        self.send_response(206 if start else 200)
        if way in ("drip", "cut"):
            self.send_header("Content-Length", str(len(BODY) - start))
        self.end_headers()
        try:
            if way == "cut":
                self.wfile.write(BODY[start : start + 1])
            while way in ("endless", "drip") and not self.server.over.is_set():
                self.wfile.write(b"x" * 4096 if way == "endless" else b"x")
                self.server.over.wait(0 if way == "endless" else 0.02)
        except OSError:  # given up
            pass

    def log_message(self, *args):
        pass


@pytest.fixture
def hostile():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    server.daemon_threads, server.asked, server.over = True, [], Event()
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.over.set()
    server.shutdown()
    server.server_close()


def remote(server, way: str, most: int = 10**6) -> Remote:
    return Remote(f"http://127.0.0.1:{server.server_port}/{way}", f"sha256:{hashlib.sha256(BODY).hexdigest()}", "x.bin", most=most)


def test_a_file_without_end_is_given_up_and_removed(hostile, tmp_path):
    with pytest.raises(DataError, match="more than 50,000 bytes"):
        download(remote(hostile, "endless", 50_000), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("way", ["drip", "cut"])
def test_a_byte_now_and_then_is_given_up(way, hostile, tmp_path, monkeypatch):
    """Cut after every byte, each try brings the file further: it is the whole that counts."""
    monkeypatch.setattr(fetch, "PATIENCE_SECONDS", 0.3)
    monkeypatch.setattr(fetch, "SLOWEST", 10**6)
    with pytest.raises(DataError, match="sends less than 1000000 bytes in a second"):
        download(remote(hostile, way), tmp_path)
    assert len(hostile.asked) < len(BODY)


def test_silence_is_given_up(hostile, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "TIMEOUT_SECONDS", 0.2)
    began = time.monotonic()
    with pytest.raises(DataError, match="timed out"):
        download(remote(hostile, "silent"), tmp_path)
    assert time.monotonic() - began < 25


def test_every_published_dataset_has_a_checksum_that_is_known(tmp_path):
    """All but one a SHA-256; that one has a bound on its size, and the page says so."""
    kinds = {d.name: {r.checksum.split(":")[0] for r in d.origin.remotes} for d in DATASETS.values() if isinstance(d, Published)}
    assert kinds.pop("irmas") == {"md5"}
    assert set.union(*kinds.values()) == {"sha256"}
    assert all(r.most < 5 * 10**9 for r in DATASETS["irmas"].origin.remotes)
