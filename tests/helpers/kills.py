"""Kill commands at random moments, run them again until they end, and compare what they left with an uninterrupted run, bit by bit.

One process imports everything and forks for every attempt, so that an attempt costs its own work only.
"""

import os
import random
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from safetensors.torch import load_file

NURSERY = """
import os, shlex, sys
import residual_audio.cli, residual_audio.adaptation.adapt, residual_audio.comparison.compare, residual_audio.extraction
import residual_audio.models.encoders.clap, residual_audio.report.figures
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        sys.argv = ["residual-audio", *shlex.split(line)]
        residual_audio.cli.main()
        os._exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@contextmanager
def nursery() -> Iterator[subprocess.Popen]:
    process = subprocess.Popen([sys.executable, "-c", NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.stdin.close()
        process.wait(timeout=60)


def attempt(home: subprocess.Popen, words: list[str], seconds: float | None = None) -> int:
    """Run a command, and kill it after so many seconds; its exit status, −9 where it was killed."""
    home.stdin.write(shlex.join(words) + "\n")
    home.stdin.flush()
    child = int(home.stdout.readline())
    if seconds is not None and not select.select([home.stdout], [], [], seconds)[0]:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    return int(home.stdout.readline())


@dataclass
class Outcome:
    """``ends``: how often the command came to its end; ``moments``: when it was killed, as shares of the life of a run left alone."""

    ends: int = 0
    moments: list[float] = field(default_factory=list)

    def quarters(self) -> list[int]:
        """Kills in each quarter of that life."""
        return [sum(min(3, int(4 * moment)) == quarter for moment in self.moments) for quarter in range(4)]


def killed(home: subprocess.Popen, command: list[str], folder: Path, kills: int, seed: int = 0, warm: bool = True) -> Outcome:
    """``command --out FOLDER`` is killed so often; every time that it comes to its end, the result must be that of a run left alone.

    The moments are spread evenly over the life of a run, one in each of ``kills`` equal parts of it, in random order. A run that is
    resumed is shorter: it may come to its end before its moment, which is then tried again on the next, fresh one. ``warm``: run it once
    before its life is measured, since the first time of all is the slowest.
    """
    rng, outcome = random.Random(seed), Outcome()
    moments = [(part + rng.random()) / kills for part in range(kills)]
    rng.shuffle(moments)
    lives = []
    for name in ("first", "alone") if warm else ("alone",):
        began = time.monotonic()
        assert attempt(home, [*command, "--out", str(folder / name)]) == 0
        lives.append(time.monotonic() - began)
    lasts, late = lives[-1], 0
    while True:
        out, began = folder / f"killed-{outcome.ends}", time.monotonic()
        fresh = not out.exists()
        status = attempt(home, [*command, "--out", str(out)], moments[-1] * lasts if moments else None)
        assert status in (0, -signal.SIGKILL), status
        if status != 0:
            outcome.moments.append(moments.pop())
            late = 0
            continue
        outcome.ends += 1
        assert difference(folder / "alone", out) == "", (command, seed)
        if not moments:
            return outcome
        if fresh:
            # It ended before its moment: this run was faster than the one that was left alone.
            lasts, late = min(lasts, time.monotonic() - began), late + 1
            assert late < 20, "runs get faster and faster"


def difference(one: Path, other: Path) -> str:
    """The first file of numbers that differs between two folders; empty where none does. Records of time and place are not compared."""
    kept = [p.relative_to(one) for p in sorted(one.rglob("*.safetensors"))]
    there = [p.relative_to(other) for p in sorted(other.rglob("*.safetensors"))]
    if kept != there:
        return f"other files: {set(kept) ^ set(there)}"
    for name in kept:
        ours, theirs = load_file(one / name), load_file(other / name)
        if ours.keys() != theirs.keys() or any(not bool((ours[k] == theirs[k]).all()) for k in ours):
            return str(name)
    return ""
