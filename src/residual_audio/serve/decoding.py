"""Uploads are decoded in processes of their own (:mod:`.decoder`), with limits on time and memory: whatever a file does, it does there.

Only bytes go to and fro: nothing that such a process says is unpickled.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from multiprocessing.connection import Connection, Pipe
from threading import Lock

import numpy as np

from .decoder import OURS, PIXELS, WALL_SECONDS
from .problems import Problem

PROGRAM = "from residual_audio.serve.decoder import main; main()"


class Decoder:
    """The process that decoders are forked from. It starts with the first upload, and ends with us, however we end.

    A program of its own: nothing of whoever called ``serve`` runs in it again, also where that is a script without a guard.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.line: socket.socket | None = None

    def forked(self, pipe: Connection) -> None:
        """A new process has this end of a pipe."""
        with self.lock:
            if self.process is None or self.process.poll() is not None:
                self.end()
                self.line, theirs = socket.socketpair()
                with theirs:
                    words = [sys.executable, "-P", "-c", PROGRAM]
                    self.process = subprocess.Popen(words, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, start_new_session=True)
            assert self.line is not None
            socket.send_fds(self.line, [b"x"], [pipe.fileno()])

    def decoded(self, data: bytes, kind: str, rate: int, seconds: float) -> np.ndarray:
        """An upload as samples ``[frame]`` or pixels ``[row, column, 3]``; a problem that says what is wrong with it."""
        if not data:
            raise Problem(422, f"{OURS}: is empty (0 bytes)")
        ours, theirs = Pipe()
        try:
            with theirs:
                self.forked(theirs)
            ours.send_bytes(json.dumps({"kind": kind, "rate": rate, "seconds": seconds, "size": len(data)}).encode())
            ours.send_bytes(data)
            largest = 4 * int(rate * (seconds + 1)) if kind == "sound" else 3 * PIXELS
            answer = json.loads(received(ours, 65_536))
            if "error" in answer:
                raise Problem(422, answer["error"])
            return np.frombuffer(received(ours, largest + 64), answer["dtype"]).reshape(answer["shape"]).copy()
        except (EOFError, OSError):
            raise Problem(422, f"{OURS}: decoding it took too long or ended without an answer; re-export it as WAV") from None
        finally:
            ours.close()

    def end(self) -> None:
        """It ends when the line to it does."""
        if self.line is not None:
            self.line.close()
            self.line = None
        if self.process is not None:
            self.process.wait()
            self.process = None


def received(pipe: Connection, most: int) -> bytes:
    if not pipe.poll(WALL_SECONDS):
        raise EOFError
    return pipe.recv_bytes(most)
