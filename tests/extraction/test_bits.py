"""What extraction writes is the same to the bit as before the package was rearranged.

The code of commit ede23ca, which wrote the same as that of b91dd51, was given the present weights of `tiny` to take the hash.

A process of its own, on one thread and restricted to instructions that every x86-64 CPU has, so that the bits do not depend on the machine.
"""

import hashlib
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

PORTABLE = {"MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "OMP_NUM_THREADS": "1"}
HASH = "b74bc4d397e3b7c6f0fe730d911e5c87bc28cf91289373d8d90f4c19954e3e53"
PROGRAM = """
import sys, torch
import residual_audio as ra
torch.set_num_threads(1)
sounds, out = sys.argv[1:]
granularity = ["head", "mlp", "block", "stage", "embedding", "moments", "direct", "tokens"]
ra.extract(ra.load_encoder("tiny"), ra.load_dataset(f"folder:{sounds}"), out, granularity, batch_size=4, units="S2B1H7 S0B1H2")
"""


def write_noise(path: Path, state: int, quieter: int) -> None:
    """Integers from a linear congruence: no library's sine or random numbers can change them."""
    values = []
    for _ in range(48_000):
        state = (1103515245 * state + 12345) % 2**31
        values.append((state >> 15) - 32768 >> quieter)
    soundfile.write(path, np.array(values, dtype=np.int16), 24_000, subtype="PCM_16")


def digest(run) -> str:
    total = hashlib.sha256()
    for key in run.keys:
        total.update(key.encode())
        total.update(run.array(key)[:].contiguous().numpy().tobytes())
    for level in ("tokens", "clips"):
        moments = run.moments(level)
        for part in (moments.count, moments.total, moments.second):
            total.update(part.contiguous().numpy().tobytes())
    return total.hexdigest()


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the hash is of x86-64's arithmetic")
def test_extraction_is_what_it_was(tmp_path):
    from residual_audio.extraction import Run

    for i in range(6):
        folder = tmp_path / "sounds" / "ab"[i // 3]
        folder.mkdir(parents=True, exist_ok=True)
        write_noise(folder / f"{i % 3}.wav", 1 + i, 2 + i % 3)
    words = [sys.executable, "-c", PROGRAM, str(tmp_path / "sounds"), str(tmp_path / "run")]
    subprocess.run(words, check=True, env={**os.environ, **PORTABLE}, capture_output=True)
    assert digest(Run.open(tmp_path / "run")) == HASH
