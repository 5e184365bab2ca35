"""Peak memory of an extraction does not depend on how many clips there are: 100 against 1,000 clips of ``tiny``."""

from __future__ import annotations

import subprocess
import sys
import tempfile

PROGRAM = """
import resource, sys
from residual_audio.data import load_dataset
from residual_audio.extraction import extract
from residual_audio.models import load_encoder
data = load_dataset("synthetic-voice", per_class=125).limited(int(sys.argv[1]))
extract(load_encoder("tiny"), data, sys.argv[2], ("head", "moments", "direct"))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def peak(clips: int) -> int:
    """Peak resident memory in MB, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-c", PROGRAM, str(clips), f"{folder}/run"], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


def main() -> None:
    few, many = peak(100), peak(1000)
    print(f"peak memory: {few} MB for 100 clips, {many} MB for 1,000 clips, growth {many - few} MB")


if __name__ == "__main__":
    main()
