"""Reading a run of 100,000 clips and 10,000 classes: how long ids, classes, digests, arrays and a repeated `extract` take.

python benchmarks/large_run.py [CLIPS [CLASSES]]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from residual_audio.extraction import Run, extract
from residual_audio.models import load_encoder
from tests.helpers.large import large_dataset, large_run


def main() -> None:
    clips = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    classes = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    encoder = load_encoder("tiny")
    with tempfile.TemporaryDirectory() as home:
        folder, made = Path(home) / "run", {}

        def timed(what: str, work):  # type: ignore[no-untyped-def]
            began = time.process_time()
            result = work()
            made[what] = time.process_time() - began
            return result

        data = timed("the dataset: labels, targets, groups", lambda: large_dataset(clips, classes))
        timed("writing it", lambda: large_run(encoder, data, folder))
        run = timed("opening it: clips, class names", lambda: Run.open(folder))
        assert len(timed("the table of clips", lambda: run.clips)) == clips
        assert timed("every embedding, shards compared with ids and digests", lambda: run.array("embedding.joint")[:]).shape[0] == clips
        assert timed("`check`: every byte", lambda: Run.open(folder).problems()) == []
        timed("`extract` again, which finds it complete", lambda: extract(encoder, data, folder, ["embedding"]))
    print(f"{clips:,} clips, {classes:,} classes: seconds of CPU")
    for what, seconds in made.items():
        print(f"| {what} | {seconds:.1f} |")


if __name__ == "__main__":
    main()
