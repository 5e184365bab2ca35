"""Uploads are decoded in a small process of their own, with limits on time and memory: whatever a file does, it does there.

The processes are forked from one that has imported the decoders and nothing else (a fork server). Only bytes go to and fro: nothing that
such a process says is unpickled.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from ..media import MediaError
from .problems import Problem

CPU_SECONDS, WALL_SECONDS = 10, 40
MEMORY = 768 * 2**20  # beyond what the process has when it begins
PIXELS = 2**24  # of an uploaded image
OURS = "the upload"


def fork_server() -> Any:
    """Starts with the first upload; it ends with us, however we end."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "residual_audio.audio.decode", "residual_audio.images.decode"])
    return context


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


def child(pipe: Connection, kind: str, rate: int, seconds: float, size: int) -> None:
    """Read the upload from the pipe, decode it, answer with a line of JSON and the bytes."""
    limited(size)
    path = Path()
    try:
        with tempfile.TemporaryFile() as file:
            file.write(pipe.recv_bytes(size + 1))
            file.flush()
            # A path that only this process has; libsndfile and Pillow know the format by what is in it.
            path = Path(f"/dev/fd/{file.fileno()}")
            answer, values = image(path) if kind == "image" else sound(path, rate, seconds)
    except MediaError as error:
        pipe.send_bytes(json.dumps({"error": str(error).replace(str(path), OURS)[:400]}).encode())
    except MemoryError:
        pipe.send_bytes(json.dumps({"error": f"{OURS}: needs more memory than an upload may have"}).encode())
    else:
        pipe.send_bytes(json.dumps(answer).encode())
        pipe.send_bytes(np.ascontiguousarray(values).tobytes())
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


def decoded(context: Any, data: bytes, kind: str, rate: int, seconds: float) -> np.ndarray:
    """An upload as samples ``[frame]`` or pixels ``[row, column, 3]``; a problem that says what is wrong with it."""
    if not data:
        raise Problem(422, f"{OURS}: is empty (0 bytes)")
    ours, theirs = context.Pipe()
    process = context.Process(target=child, args=(theirs, kind, rate, seconds, len(data)), daemon=True)
    process.start()
    theirs.close()
    try:
        ours.send_bytes(data)
        largest = 4 * int(rate * (seconds + 1)) if kind == "sound" else 3 * PIXELS
        answer = json.loads(received(ours, 65_536))
        if "error" in answer:
            raise Problem(422, answer["error"])
        values = np.frombuffer(received(ours, largest + 64), answer["dtype"]).reshape(answer["shape"]).copy()
    except (EOFError, OSError):
        raise Problem(422, f"{OURS}: decoding it took too long or ended without an answer; re-export it as WAV") from None
    finally:
        ours.close()
        process.kill()
        process.join()
        process.close()
    return values


def received(pipe: Connection, most: int) -> bytes:
    if not pipe.poll(WALL_SECONDS):
        raise EOFError
    return pipe.recv_bytes(most)
