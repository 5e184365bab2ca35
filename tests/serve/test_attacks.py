"""Strangers, other pages of the same browser, and files that mean harm: over real sockets, against a real server."""

import http.client
import socket
import time
from contextlib import suppress

import pytest

from residual_audio.adaptation.adapter import ADAPTER
from tests.helpers.hostile import uploads
from tests.helpers.page import HOSTILE
from tests.helpers.serving import Answer, children_of

API = "/api/run"
HARM = uploads()
ROOM = 150 * 2**20  # by which the server may grow over all of it


@pytest.fixture(scope="module", autouse=True)
def bounded(server):
    """Whatever is sent here, the server is still there afterwards, and hardly larger."""
    server.post(f"{API}/equalise", {"gains": {"S3B0H1": 0.9}})
    before = server.memory
    yield
    assert server.get("/api")["entries"]
    assert server.memory - before < ROOM


def told(server, raw: bytes) -> bytes:
    """What the server answers to bytes as they are."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as line:
        line.sendall(raw)
        line.shutdown(socket.SHUT_WR)
        answer = b""
        while part := line.recv(65536):
            answer += part
    return answer


@pytest.mark.parametrize("name", HARM, ids=lambda name: name.replace(" ", "-"))
def test_a_hostile_upload_is_refused_in_a_sentence(server, name):
    answer = server.ask("POST", f"{API}/sounds", raw=HARM[name])
    assert answer.status in (413, 422), answer
    error = answer.json["error"]
    assert "\n" not in error
    assert "/dev/fd" not in error
    assert "Traceback" not in error


def test_enough_of_them_are_tried():
    assert len(HARM) >= 30


def test_no_decoder_is_left_behind(server):
    server.ask("POST", f"{API}/sounds", raw=HARM["noise"])
    (forking,) = server.children  # the process that decoders are forked from
    end = time.monotonic() + 60
    while left := children_of(forking):
        assert time.monotonic() < end, left
        time.sleep(0.05)


class TestSizes:
    def test_a_length_of_2_gb_is_refused_before_anything_is_read(self, server):
        head = f"POST {API}/sounds HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: application/octet-stream\r\n"
        for length in ("2147483648", "99999999999999999999", "-1", "1e9", "0x10"):
            assert told(server, f"{head}Content-Length: {length}\r\n\r\n".encode()).startswith((b"HTTP/1.1 413", b"HTTP/1.1 400"))

    def test_an_upload_above_the_limit_is_refused(self, server):
        with suppress(BrokenPipeError, ConnectionResetError):  # refused while it was still being sent
            assert server.ask("POST", f"{API}/sounds", raw=bytes(2_000_001)).status == 413

    def test_a_body_without_a_length_is_counted(self, server):
        def endless():
            for _ in range(200):
                yield bytes(65536)

        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        headers = {"Content-Type": "application/octet-stream", "Transfer-Encoding": "chunked"}
        try:
            connection.request("POST", f"{API}/sounds", endless(), headers, encode_chunked=True)
            assert connection.getresponse().status == 413
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            connection.close()

    def test_json_has_a_limit_and_a_depth(self, server):
        assert server.ask("POST", f"{API}/equalise", {"gains": {f"S0B0H{i}": 1.0 for i in range(20_000)}}).status == 413
        deep = b'{"gains":' * 5000 + b"1" + b"}" * 5000
        assert server.ask("POST", f"{API}/equalise", raw=deep, Content_Type="application/json").status in (400, 422)

    def test_endless_headers_are_cut_off(self, server):
        head = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nX: ".encode()
        with suppress(OSError):  # cut off in the middle
            assert b" 200 " not in told(server, head + b"x" * 200_000)[:40]

    @pytest.mark.parametrize("text", ["", "x" * 201, 5, None, ["x"]])
    def test_texts_have_a_length(self, server, text):
        assert server.ask("POST", f"{API}/ask", {"text": text}).status == 422

    def test_there_are_not_endlessly_many_texts(self, server):
        assert server.ask("POST", f"{API}/sounds/row-1/scores", {"texts": ["x"] * 17}).status == 422


class TestOtherPages:
    """What a browser sends where another page makes it ask."""

    @pytest.mark.parametrize(
        "origin", ["http://evil.example", "null", "http://localhost:1", "https://127.0.0.1", "http://127.0.0.1.evil.example"]
    )
    @pytest.mark.parametrize("path", ["/api", f"{API}/equalise", "/r/run/"])
    def test_another_origin_is_refused(self, server, origin, path):
        method = "POST" if path.endswith("equalise") else "GET"
        assert server.ask(method, path, {} if method == "POST" else None, Origin=origin).status == 403

    @pytest.mark.parametrize("site", ["cross-site", "same-site"])
    def test_another_site_is_refused(self, server, site):
        assert server.ask("POST", f"{API}/equalise", {}, Sec_Fetch_Site=site).status == 403
        assert server.ask("GET", "/api", Sec_Fetch_Site=site).status == 403
        assert server.ask("DELETE", f"{API}/adapters/adapter", Sec_Fetch_Site=site).status == 403
        frame = {"Sec_Fetch_Site": site, "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"}
        assert server.ask("GET", "/r/run/", **frame).status == 403

    def test_a_link_may_open_the_page_but_nothing_behind_it(self, server):
        link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
        assert server.ask("GET", "/r/run/", **link).status == 200
        assert server.ask("GET", f"{API}/adapters/adapter/folded.zip", **link).status == 403

    def test_its_own_page_may_ask(self, server):
        own = f"http://127.0.0.1:{server.port}"
        assert server.ask("POST", f"{API}/equalise", {}, Origin=own, Sec_Fetch_Site="same-origin").status == 200

    @pytest.mark.parametrize(
        "host",
        [
            "evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", "evil.example:{port}", "",
            "127.0.0.1:{port}@evil.example", "user@127.0.0.1:{port}", "127.0.0.1:{port}/x", "192.0.2.7:{port}",
        ],
    )  # fmt: skip
    def test_other_names_of_the_server_are_refused(self, server, host):
        """DNS rebinding: a name elsewhere that was turned to this address."""
        answer = told(server, f"GET /api HTTP/1.1\r\nHost: {host.format(port=server.port)}\r\nConnection: close\r\n\r\n".encode())
        assert answer.startswith((b"HTTP/1.1 421", b"HTTP/1.1 400"))

    def test_two_hosts_are_refused(self, server):
        good = f"Host: 127.0.0.1:{server.port}\r\n"
        assert told(server, f"GET /api HTTP/1.1\r\n{good}Host: evil.example\r\n\r\n".encode()).startswith(b"HTTP/1.1 400")

    @pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""])
    def test_a_form_cannot_post(self, server, kind):
        assert server.ask("POST", f"{API}/equalise", {}, Content_Type=kind).status == 415
        assert server.ask("POST", f"{API}/sounds", raw=b"x", Content_Type=kind).status == 415

    def test_nobody_is_given_leave_to_read(self, server):
        answer = server.ask("OPTIONS", f"{API}/equalise", Origin=f"http://127.0.0.1:{server.port}", Access_Control_Request_Method="POST")
        assert answer.status == 405
        assert not any(name.startswith("access-control") for name in answer.headers)

    def test_every_answer_is_closed_to_others(self, server):
        for path in ("/", "/r/run/", "/api", "/api/none", "/nothing"):
            headers = server.ask("GET", path).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert headers["cross-origin-resource-policy"] == "same-origin"


NAMES = [
    "..", ".", "%2e%2e", "..%2f..%2fetc", "%2fetc%2fpasswd", "a/b", "a%00b", "UPPER", "-x", "x-", "x" * 49, "ä", "%c3%28", ".lock",
    ".drafts", "con:",
]  # fmt: skip


class TestNames:
    @pytest.mark.parametrize("name", NAMES)
    def test_only_plain_names_are_names(self, server, name, folder):
        asked: list[Answer] = [
            server.ask("GET", f"{API}/adapters/{name}/adapter.zip"),
            server.ask("GET", f"{API}/equaliser?adapter={name}"),
            server.ask("DELETE", f"{API}/datasets/{name}"),
            server.ask("POST", f"{API}/datasets/{name}/labels", {"row": 1, "label": "x"}),
        ] if name.isascii() else []  # fmt: skip
        asked.append(server.ask("POST", f"{API}/adapters", {"name": name, "setting": {"gains": {"S3B0H1": 0.5}}}))
        assert all(answer.status in (404, 405, 422) for answer in asked), asked
        inside = {path.name for path in folder.iterdir()}
        assert inside <= {"run", ".lock", ".drafts"}

    @pytest.mark.parametrize("sid", ["..", "%2e%2e%2fx", "row--1", "row-999999", "row-1e3", "x" * 500, "synthetic:source/8/20000000"])
    def test_a_sound_is_never_a_path(self, server, sid):
        assert server.ask("POST", f"{API}/sounds/{sid}/scores", {}).status == 404

    @pytest.mark.parametrize(
        "path",
        [
            "/etc/passwd", "/../../etc/passwd", "/r/..%2f..", "/static/../run.json", "/r/run/run.json", "//evil.example/", "/docs",
            "/openapi.json",
        ],
    )  # fmt: skip
    def test_no_file_is_served(self, server, path):
        assert server.ask("GET", path).status == 404

    def test_links_in_the_folder_lead_nowhere(self, server, made, folder, tmp_path):
        adapters, datasets = folder / "run" / "adapters", folder / "run" / "datasets"
        adapters.mkdir(parents=True, exist_ok=True)
        (datasets / "lead").mkdir(parents=True, exist_ok=True)
        outside = tmp_path / "outside"
        outside.mkdir()
        (adapters / "linked").symlink_to(made.adapter)
        (datasets / "linked").symlink_to(outside)
        (datasets / "lead" / "sounds").symlink_to(outside)
        (datasets / "lead" / "table.csv").symlink_to(made.adapter / ADAPTER[0])
        try:
            assert "linked" not in [one["name"] for one in server.get(f"{API}/adapters")["adapters"]]
            for answer in (
                server.ask("GET", f"{API}/adapters/linked/adapter.zip"),
                server.ask("POST", f"{API}/adapters", {"name": "linked", "setting": {"gains": {"S3B0H1": 0.5}}, "replace": True}),
                server.ask("POST", f"{API}/datasets/linked/labels", {"row": 1, "label": "x"}),
                server.ask("GET", f"{API}/datasets/lead"),
                server.ask("POST", f"{API}/datasets/lead/labels", {"row": 1, "label": "x"}),
            ):
                assert answer.status in (404, 409, 422), answer
            assert not list(outside.iterdir())
        finally:
            for link in (adapters / "linked", datasets / "linked", datasets / "lead" / "sounds", datasets / "lead" / "table.csv"):
                link.unlink()


class TestWordsAreInert:
    @pytest.mark.parametrize("label", ["=cmd|' /C calc'!A0", "+1", "-1", "@x", "", "   ", "x" * 81])
    def test_labels_that_act_are_refused(self, server, label):
        assert server.ask("POST", f"{API}/datasets/bad/labels", {"row": 1, "label": label}).status == 422

    def test_scripts_in_labels_and_texts_are_words(self, server, folder):
        label = f'{HOSTILE}\n\x1b[31m,"quoted"'
        answer = server.ask("POST", f"{API}/datasets/script/labels", {"row": 1, "label": label})
        assert answer.headers["content-type"] == "application/json"
        (stored,) = answer.json["classes"]
        assert stored == f'{HOSTILE}\\n\\x1b[31m,"quoted"'
        assert server.get(f"{API}/datasets/script")["rows"][0]["label"] == stored
        assert len((folder / "run" / "datasets" / "script" / "table.csv").read_text().splitlines()) == 2
        assert server.post(f"{API}/ask", {"text": HOSTILE})["text"] == HOSTILE
        server.ask("DELETE", f"{API}/datasets/script")


def test_many_clients_at_once_are_all_answered(server):
    from concurrent.futures import ThreadPoolExecutor

    began = time.monotonic()
    with ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda n: server.ask("POST", f"{API}/equalise", {"gains": {"S3B0H1": 0.5 + n / 100}}), range(24)))
    assert {answer.status for answer in answers} == {200}, time.monotonic() - began
