"""The program behind :class:`.decoding.Decoder`: it has imported the decoders and nothing else, and forks a process for every upload.

Its input is a socket; each byte on it brings one end of a pipe. It ends when the socket does.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from ..media import MediaError

CPU_SECONDS, WALL_SECONDS = 10, 40
MEMORY = 768 * 2**20  # beyond what the process has when it begins
PIXELS = 2**24  # of an uploaded image
ORDER = 1000  # bytes that say what an upload is
OURS = "the upload"


def main() -> None:
    from ..audio import decode as _sounds  # noqa: F401  (once, for all processes that are forked from here)
    from ..images import decode as _images  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that have ended
    with socket.socket(fileno=os.dup(0)) as line:
        while True:
            told, pipes, _, _ = socket.recv_fds(line, 1, 1)
            if not told:
                return
            if os.fork() == 0:
                line.close()
                child(Connection(pipes[0]))
            os.close(pipes[0])


def limited(data: int) -> None:
    """No more time, memory or files than decoding needs; what is open stays open."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    most = {
        resource.RLIMIT_CPU: CPU_SECONDS,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: data + 4096,
        resource.RLIMIT_NOFILE: 64,
        resource.RLIMIT_AS: pages * resource.getpagesize() + MEMORY,
    }
    for what, limit in most.items():
        _, hard = resource.getrlimit(what)
        resource.setrlimit(what, (limit, limit if hard == resource.RLIM_INFINITY else min(limit, hard)))


def child(pipe: Connection) -> None:
    """Read the upload from the pipe, decode it, answer with a line of JSON and the bytes."""
    path = Path()
    try:
        signal.alarm(WALL_SECONDS)  # ends the process, whatever it does then
        order = json.loads(pipe.recv_bytes(ORDER))
        limited(order["size"])
        with tempfile.TemporaryFile() as file:
            file.write(pipe.recv_bytes(order["size"] + 1))
            file.flush()
            # A path that only this process has; libsndfile and Pillow know the format by what is in it.
            path = Path(f"/dev/fd/{file.fileno()}")
            answer, values = image(path) if order["kind"] == "image" else sound(path, order["rate"], order["seconds"])
        pipe.send_bytes(json.dumps(answer).encode())
        pipe.send_bytes(np.ascontiguousarray(values).tobytes())
    except MediaError as error:
        pipe.send_bytes(json.dumps({"error": str(error).replace(str(path), OURS)[:400]}).encode())
    except MemoryError:
        pipe.send_bytes(json.dumps({"error": f"{OURS}: needs more memory than an upload may have"}).encode())
    finally:
        pipe.close()
        os._exit(0)  # nothing of a process that decoded a stranger's file runs on


def sound(path: Path, rate: int, seconds: float) -> tuple[dict[str, Any], np.ndarray]:
    """Mono at the model's rate; longer ones than are allowed are refused, not cut."""
    from ..audio.decode import read_segment

    samples = read_segment(path, rate, 0.0, seconds + 1)
    if len(samples) > seconds * rate:
        raise MediaError(f"{OURS}: lasts more than {seconds:g} seconds; cut it")
    return {"shape": [len(samples)], "dtype": "<f4"}, samples.astype("<f4")


def image(path: Path) -> tuple[dict[str, Any], np.ndarray]:
    from ..images.decode import as_rgb

    pixels = np.asarray(as_rgb(path))
    if pixels.shape[0] * pixels.shape[1] > PIXELS:
        raise MediaError(f"{OURS}: {pixels.shape[0]:,} × {pixels.shape[1]:,} pixels are more than {PIXELS:,}; make it smaller")
    return {"shape": list(pixels.shape), "dtype": "|u1"}, pixels
