"""Peak memory of listening to a recording does not depend on its length: 1, 10 and 60 minutes of noise with ``tiny``."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import soundfile

RATE = 44_100
PROGRAM = """
import resource, sys, time
import residual_audio as ra
encoder = ra.load_encoder("tiny")
start = time.perf_counter()
found = ra.over_time(encoder, sys.argv[1], ["a siren", "white noise"])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, time.perf_counter() - start, len(found.starts))
"""


def write_noise(path: Path, minutes: int) -> Path:
    """A real 16-bit WAV, written a second at a time."""
    rng = np.random.default_rng(0)
    with soundfile.SoundFile(path, "w", RATE, 1, "PCM_16") as file:
        for _ in range(60 * minutes):
            file.write(0.1 * rng.standard_normal(RATE).astype(np.float32))
    return path


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for minutes in (1, 10, 60):
            path = write_noise(Path(folder) / f"{minutes}.wav", minutes)
            done = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=True)
            peak, seconds, windows = map(float, done.stdout.split())
            whole = minutes * 60 * RATE * 4 / 2**20
            print(f"{minutes} min ({whole:.0f} MB decoded): peak {peak:.0f} MB, {windows:.0f} windows in {seconds:.1f} s")


if __name__ == "__main__":
    main()
