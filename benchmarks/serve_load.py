"""Many people on one server: 50 clients for a minute on loopback, mixed requests; errors and latencies of each, and of one client alone.

    python benchmarks/serve_load.py [--clients 50] [--seconds 60] [--think 1.0]

Every client asks, waits (on average ``--think`` seconds, as people do) and asks again. The server serves `tiny` on `notes`, 100 clips.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import soundfile

START_SECONDS, ALONE = 900, 7
# How often each is asked for, of a hundred.
MIX = {"page": 2, "list": 8, "clip": 10, "equalise": 30, "upload": 8, "scores": 14, "shares": 8, "map": 6, "ask": 8, "label": 6}


def started(folder: Path) -> tuple[subprocess.Popen[str], int]:
    words = ["serve", "tiny", "--data", "notes", "--limit", "120", "--folder", str(folder), "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-c", "from residual_audio.cli import main; main()", *words], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
    line = process.stdout.readline() if ready else ""
    found = re.match(r"http://[^:]+:(\d+)/", line)
    if found is None:
        process.kill()
        raise SystemExit(f"the server did not start: {line!r}")
    return process, int(found[1])


def sound(seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    t = np.arange(5 * 16000) / 16000
    file = io.BytesIO()
    soundfile.write(file, 0.3 * np.sin(2 * np.pi * rng.uniform(100, 2000) * t) + 0.05 * rng.standard_normal(len(t)), 16000, format="WAV")
    return file.getvalue()


class Client(threading.Thread):
    """One person with one connection."""

    def __init__(self, number: int, port: int, until: float, think: float, record: dict[str, list[tuple[float, int]]]) -> None:
        super().__init__(daemon=True)
        self.number, self.port, self.until, self.think, self.record = number, port, until, think, record
        self.draw, self.line, self.wave = random.Random(number), None, sound(number)
        self.sid: str | None = None

    def ask(self, kind: str, method: str, path: str, body: object = None, raw: bytes | None = None) -> bytes:
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        headers = {} if data is None else {"Content-Type": "application/octet-stream" if raw is not None else "application/json"}
        began, status, answer = time.perf_counter(), 0, b""
        try:
            self.line = self.line or http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
            self.line.request(method, path, data, headers)
            got = self.line.getresponse()
            status, answer = got.status, got.read()
        except OSError:
            self.line = None
        self.record[kind].append((time.perf_counter() - began, status))
        return answer if 200 <= status < 300 else b"{}"

    def once(self, kind: str) -> None:
        api, gain = "/api/tiny-notes", round(self.draw.uniform(0, 2), 3)
        at = f"{api}/sounds/{self.sid or f'row-{self.draw.randrange(100)}'}"
        if kind == "page":
            self.ask(kind, "GET", "/r/tiny-notes/")
        elif kind == "list":
            self.ask(kind, "GET", "/api")
        elif kind == "clip":
            self.ask(kind, "GET", f"{api}/clips/{self.draw.randrange(120)}")
        elif kind == "equalise":
            self.ask(kind, "POST", f"{api}/equalise", {"gains": {f"S3B{self.draw.randrange(2)}H{self.draw.randrange(32)}": gain}})
        elif kind == "upload":
            self.sid = json.loads(self.ask(kind, "POST", f"{api}/sounds", raw=self.wave)).get("sound")
        elif kind == "scores":
            self.ask(kind, "POST", f"{at}/scores", {"texts": [f"sound {self.draw.randrange(50)}"], "setting": {"gains": {"S3B0H1": gain}}})
        elif kind in ("shares", "map"):
            self.ask(kind, "POST", f"{at}/{kind}", {"class": self.draw.randrange(10)})
        elif kind == "ask":
            self.ask(kind, "POST", f"{api}/ask", {"text": f"a bell {self.draw.randrange(50)}"})
        else:
            self.ask(kind, "POST", f"{api}/datasets/client-{self.number}/labels", {"row": self.draw.randrange(100), "label": "x"})

    def run(self) -> None:
        time.sleep(self.draw.uniform(0, self.think))
        while time.perf_counter() < self.until:
            self.once(self.draw.choices(list(MIX), list(MIX.values()))[0])
            time.sleep(self.draw.expovariate(1 / self.think) if self.think else 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--think", type=float, default=1.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        process, port = started(Path(home) / "live")
        try:
            record: dict[str, list[tuple[float, int]]] = defaultdict(list)
            alone = Client(0, port, 0, 0, defaultdict(list))
            for kind in MIX:
                for _ in range(ALONE + 1):  # the first of each makes what the others share
                    alone.once(kind)
            until = time.perf_counter() + given.seconds
            clients = [Client(n, port, until, given.think, record) for n in range(given.clients)]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            memory = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * 4096 / 2**20
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)
    print(f"{given.clients} clients, {given.seconds:g} s, {given.think:g} s between requests; the server has {memory:.0f} MB\n")
    print("| request | one client alone, median ms | number | errors | median ms | p95 ms |\n|---|---|---|---|---|---|")
    total = [one for some in record.values() for one in some]
    for kind, some in [*((kind, record[kind]) for kind in MIX), ("all", total)]:
        times = np.array([seconds for seconds, _ in some]) * 1000
        errors = sum(not 200 <= status < 300 for _, status in some)
        if len(times):
            one = f"{1000 * np.median([seconds for seconds, _ in alone.record[kind][1:]]):.0f}" if kind in alone.record else ""
            print(f"| {kind} | {one} | {len(some)} | {errors} | {np.median(times):.0f} | {np.percentile(times, 95):.0f} |")


if __name__ == "__main__":
    main()
