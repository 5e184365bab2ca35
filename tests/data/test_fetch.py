"""Downloads against a real server on this machine."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from residual_audio.data import DATASETS, DataError, Published, load_dataset
from residual_audio.data.fetch import Remote, download, fetch
from residual_audio.data.origin import Origin
from residual_audio.data.sets import esc50 as esc50_module

BODY = np.random.default_rng(0).bytes(300_000)


class Server(ThreadingHTTPServer):
    """Serves ``files``; can cut a response after so many bytes, and can refuse to resume."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {"/data.bin": BODY}
        self.cuts: list[int] = []
        self.resumes = True
        self.ranges: list[str | None] = []

    def remote(self, name: str, into: str = ".", checksum: str | None = None) -> Remote:
        stated = checksum or f"md5:{hashlib.md5(self.files['/' + name]).hexdigest()}"
        return Remote(f"http://127.0.0.1:{self.server_port}/{name}", stated, name, into)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        asked = self.headers.get("Range")
        self.server.ranges.append(asked)
        body = self.server.files.get(self.path)
        if body is None:
            self.send_error(404)
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.server.resumes else 0
        if start >= len(body):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        rest = body[start:]
        self.wfile.write(rest[: self.server.cuts.pop(0)] if self.server.cuts else rest)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    server = Server()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_full_download(server, tmp_path):
    assert download(server.remote("data.bin"), tmp_path).read_bytes() == BODY
    assert [p.name for p in tmp_path.iterdir()] == ["data.bin"]
    download(server.remote("data.bin"), tmp_path)
    assert server.ranges == [None]


def test_sha256(server, tmp_path):
    checksum = f"sha256:{hashlib.sha256(BODY).hexdigest()}"
    assert download(server.remote("data.bin", checksum=checksum), tmp_path).exists()


def test_a_cut_connection_is_continued_by_itself(server, tmp_path):
    server.cuts = [100_000, 50_000]
    assert download(server.remote("data.bin"), tmp_path).read_bytes() == BODY
    assert server.ranges == [None, "bytes=100000-", "bytes=150000-"]


def test_no_progress_keeps_the_part_and_the_next_call_continues(server, tmp_path):
    server.cuts = [100_000, 0]
    with pytest.raises(DataError, match=r"cannot download http://127.*the connection was cut.*kept in .*data.bin.part"):
        download(server.remote("data.bin"), tmp_path)
    assert (tmp_path / "data.bin.part").read_bytes() == BODY[:100_000]
    assert download(server.remote("data.bin"), tmp_path).read_bytes() == BODY
    assert server.ranges[-1] == "bytes=100000-"


def test_a_part_that_is_whole_already(server, tmp_path):
    (tmp_path / "data.bin.part").write_bytes(BODY)
    assert download(server.remote("data.bin"), tmp_path).read_bytes() == BODY


def test_a_server_that_cannot_resume_starts_anew(server, tmp_path):
    (tmp_path / "data.bin.part").write_bytes(b"something else")
    server.resumes = False
    assert download(server.remote("data.bin"), tmp_path).read_bytes() == BODY


def test_a_wrong_checksum_is_refused_and_the_file_removed(server, tmp_path):
    actual = hashlib.md5(BODY).hexdigest()
    with pytest.raises(DataError, match=f"has the md5 {actual}, expected {'0' * 32}; it was removed"):
        download(server.remote("data.bin", checksum=f"md5:{'0' * 32}"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_not_found_and_nobody_there(server, tmp_path):
    with pytest.raises(DataError, match=r"cannot download .*/gone.bin: HTTP Error 404"):
        download(Remote(f"http://127.0.0.1:{server.server_port}/gone.bin", "md5:0", "gone.bin"), tmp_path)
    with pytest.raises(DataError, match=r"cannot download http://127.0.0.1:9/x: .*refused"):
        download(Remote("http://127.0.0.1:9/x", "md5:0", "x"), tmp_path)


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_archives_are_unpacked_where_they_belong_and_nothing_is_left_over(server, tmp_path):
    server.files |= {"/a.zip": zipped({"top/x.txt": b"x"}), "/b.tar.gz": tarred({"Brass/y.txt": b"y"}), "/m.csv": b"m"}
    fetch([server.remote("a.zip"), server.remote("b.tar.gz", into="audio"), server.remote("m.csv")], tmp_path)
    assert {p.relative_to(tmp_path).as_posix(): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == {
        "top/x.txt": b"x",
        "audio/Brass/y.txt": b"y",
        "m.csv": b"m",
    }
    assert not (tmp_path / ".download").exists()


def test_what_was_fetched_before_a_failure_is_not_fetched_again(server, tmp_path):
    server.files |= {"/a.zip": zipped({"top/x.txt": b"x"}), "/m.csv": b"m"}
    remotes = [server.remote("a.zip"), server.remote("m.csv")]
    del server.files["/m.csv"]
    with pytest.raises(DataError, match="404"):
        fetch(remotes, tmp_path)
    assert not (tmp_path / "top").exists()
    server.files["/m.csv"] = b"m"
    asked = len(server.ranges)
    fetch(remotes, tmp_path)
    assert len(server.ranges) == asked + 1
    assert (tmp_path / "top" / "x.txt").exists()


def test_an_existing_folder_is_not_overwritten(server, tmp_path):
    server.files["/a.zip"] = zipped({"top/x.txt": b"x"})
    (tmp_path / "top").mkdir()
    with pytest.raises(DataError, match="top exists already"):
        fetch([server.remote("a.zip")], tmp_path)


def test_load_dataset_fetches_what_is_absent_and_only_that(server, tmp_path, write, monkeypatch):
    sound = write(tmp_path / "x.wav").read_bytes()
    table = b"filename,fold,target,category,esc10,src_file,take\n1-1-A-0.wav,1,0,dog,True,1,A\n"
    server.files["/esc50.zip"] = zipped({"ESC-50-abc/meta/esc50.csv": table, "ESC-50-abc/audio/1-1-A-0.wav": sound})
    origin = replace(esc50_module.ORIGIN, remotes=(server.remote("esc50.zip"),))
    monkeypatch.setattr(esc50_module, "ORIGIN", origin)
    monkeypatch.setitem(DATASETS._all(), "esc50", replace(DATASETS["esc50"], origin=origin))
    root = tmp_path / "root"
    with pytest.raises(DataError, match="download=True"):
        load_dataset("esc50", root)
    for _ in range(2):
        assert [c.label for c in load_dataset("esc50", root, download=True).clips] == ["dog"]
    assert len(server.ranges) == 1


def test_offline_names_address_layout_and_the_way_by_hand(tmp_path):
    remote = Remote("http://127.0.0.1:9/x.zip", "md5:0", "x.zip")
    origin = Origin("things", "https://example.org/things", "  ROOT/things.csv", ("things.csv",), (remote,))
    with pytest.raises(DataError) as caught:
        origin.ensure(tmp_path)
    text = str(caught.value)
    assert "things: cannot download http://127.0.0.1:9/x.zip" in text
    assert "https://example.org/things" in text
    assert "ROOT/things.csv" in text


def test_stated_checksums_are_well_formed():
    published = [source for source in DATASETS.values() if isinstance(source, Published)]
    assert published
    for source in published:
        for remote in source.origin.remotes:
            algorithm, _, digest = remote.checksum.partition(":")
            assert len(bytes.fromhex(digest)) == hashlib.new(algorithm).digest_size
            assert remote.url.startswith("https://")
