"""A real server in a process of its own, and a client that can send what no browser would."""

import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

SOURCE = Path(__file__).resolve().parents[2] / "src"
PROGRAM = "from residual_audio.cli import main; main()"
PATIENCE = 600  # seconds for a start: other tests may keep the machine busy


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def children_of(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
    return found


@contextmanager
def listening(application: Callable[[int], Any]) -> Iterator[int]:
    """``application(port)`` on a real socket in a thread of this process, while it lasts; gives the port."""
    import uvicorn

    line = socket.create_server(("127.0.0.1", 0))
    port = line.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(application(port), log_level="critical", http="h11", server_header=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [line]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield port
    finally:
        server.should_exit = True
        thread.join(timeout=20)


class Server:
    """``residual-audio serve WORDS`` on a free port, or a ``script`` that serves; :attr:`url` is the line that it printed."""

    def __init__(self, *words: object, cache: Path, script: Path | None = None) -> None:
        own = {"PYTHONPATH": str(SOURCE), "RESIDUAL_AUDIO_CACHE": str(cache), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        told = ["-c", PROGRAM, "serve", *map(str, words), "--port", "0"] if script is None else [str(script)]
        command = [sys.executable, *told]
        self.log = (cache / "server.log").open("ab")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, env={**os.environ, **own}, text=True)
        self.url = self.waited()
        self.port = int(self.url.split(":")[2].split("/")[0])

    def waited(self) -> str:
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline().strip() if ready else ""
        if not line.startswith("http://"):
            self.process.kill()
            raise AssertionError(f"the server did not start: {line!r}; {Path(self.log.name).read_text()[-2000:]}")
        return line

    def ask(self, method: str, path: str, body: Any = None, raw: bytes | None = None, **headers: str) -> Answer:
        """JSON, or ``raw`` bytes as an upload; ``headers`` with underscores replace what is sent."""
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        kind = "application/octet-stream" if raw is not None else "application/json"
        named = {"Content-Type": kind} if data is not None else {}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        try:
            connection.request(method, path, data, named)
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        return self.fine(self.ask("GET", path))

    def post(self, path: str, body: Any = None, raw: bytes | None = None) -> Any:
        return self.fine(self.ask("POST", path, body, raw))

    @staticmethod
    def fine(answer: Answer) -> Any:
        assert answer.status in (200, 201, 202), (answer.status, answer.body[:500])
        return answer.json

    def job(self, id: str, until: tuple[str, ...] = ("done", "failed", "cancelled"), seconds: float = 600) -> dict[str, Any]:
        """Wait until a training is in one of these states."""
        end = time.monotonic() + seconds
        while (job := self.get(f"/api/jobs/{id}"))["state"] not in until:
            assert time.monotonic() < end, job
            time.sleep(0.2)
        return job

    @property
    def memory(self) -> int:
        """Resident bytes of the server's own process."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    @property
    def children(self) -> list[int]:
        return children_of(self.process.pid)

    def end(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        code = self.process.wait(timeout=120)
        self.process.stdout.close()
        self.log.close()
        return code
