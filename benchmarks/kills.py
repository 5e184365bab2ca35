"""Kill `extract`, `compare` and `adapt` at random moments and run them again until they end: the result is bit-identical.

`extract` also in bf16, where the machine has it.

python benchmarks/kills.py [EXTRACT [OTHERS]]     # default: 100 kills of extract, 20 of each of the others
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from residual_audio.models.precision import bf16_ratio
from tests.helpers.kills import killed, nursery

COMMANDS = {
    "extract": "extract tiny synthetic-voice --limit 32 --batch-size 4",
    "extract in bf16": "extract tiny synthetic-voice --limit 32 --batch-size 4 --precision bf16",
    "compare": "compare tiny synthetic-voice --limit 40 --methods plain,fisher-gains",
    "adapt": "adapt tiny synthetic-voice --limit 40 --units S3B1 --form gains --epochs 2 --replace",
}


def main() -> None:
    often = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    others = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    with nursery() as home, tempfile.TemporaryDirectory() as folder:
        for name, command in COMMANDS.items():
            if "bf16" in command and bf16_ratio() is None:
                print(f"{name}: this CPU has no bf16")
                continue
            kills = often if name == "extract" else others
            outcome = killed(home, command.split(), Path(folder) / name, kills)
            quarters = ", ".join(map(str, outcome.quarters()))
            print(
                f"{name}: killed {len(outcome.moments)} times ({quarters} in the quarters of a run's life), came to its end "
                f"{outcome.ends} times, every time with the same bits",
                flush=True,
            )


if __name__ == "__main__":
    main()
