"""Files to store on one machine, by the local engine and by Ray, in PyTorch and OpenVINO, in float32 and bf16, and the cost of 2 million
clips that follows.

Prints the figures of docs/scaling.md; with ``--page docs/scaling.md`` it puts them there.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from common import full_size_checkpoint, machine, write_sounds

from residual_audio.data import Dataset, load_dataset
from residual_audio.exporting.export import export
from residual_audio.extraction import Run, extract
from residual_audio.models import Encoder, load_encoder
from residual_audio.models.engines.openvino import has_bf16
from residual_audio.models.precision import bf16_ratio

PLAIN, DIRECT = ("head", "moments", "embedding"), ("head", "moments", "embedding", "direct")
MILLIONS, SHARD_CLIPS, CORES = 2, 128, 64
ACTORS, THREADS = 2, 2
BLOCK = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- end of figures -->)", re.DOTALL)


@dataclass(frozen=True)
class Measured:
    """``rate`` in clips per second once everything runs; ``start`` in seconds before that; bytes on disk."""

    rate: float
    start: float
    clip_bytes: int
    shard_bytes: int


def shard_paths(run: Run) -> list[Path]:
    return sorted((run.store.local / "shards").iterdir(), key=lambda path: path.stat().st_mtime)


def sizes(run: Run) -> tuple[int, int]:
    """Bytes per clip in the arrays, and the rest of its shard: the moments and the header."""
    names = [f"shards/{path.name}" for path in shard_paths(run)]
    arrays = [sum(v.nbytes for k, v in run.store.read_tensors(name).items() if not k.startswith("moments.")) for name in names]
    files = [path.stat().st_size for path in shard_paths(run)]
    return round(sum(arrays) / len(run.clips)), round((sum(files) - sum(arrays)) / len(files))


def measure(encoder: Encoder, data: Dataset, out: Path, granularity: tuple[str, ...], batch_size: int, **options: object) -> Measured:
    """Extract, and take the rate from the times at which shards were complete: each worker's first shard is its warm-up."""
    begun = time.time()
    run = extract(encoder, data, out, granularity, batch_size=batch_size, **options)
    ends = [path.stat().st_mtime for path in shard_paths(run)]
    warm = ACTORS if "engine" in options else 1
    clips = 8 * batch_size
    rate = (len(ends) - warm) * clips / (ends[-1] - ends[warm - 1])
    return Measured(rate, ends[warm - 1] - begun - warm * clips / rate, *sizes(run))


def models(folder: Path) -> dict[str, Encoder]:
    """One full-size model by engine and precision: what this machine has."""
    encoder = load_encoder(full_size_checkpoint(folder / "checkpoint"))
    found: dict[str, Encoder] = {"PyTorch, float32": encoder}
    precisions = ["float32"]
    if bf16_ratio() is not None:
        found["PyTorch, bf16"] = load_encoder(folder / "checkpoint", precision="bf16")
        precisions.append("bf16")
    for precision in precisions if has_bf16() else ["float32"]:
        path = folder / f"{precision}.xml"
        export(encoder, path, "openvino", precision=precision, record=PLAIN)
        found[f"OpenVINO, {precision}"] = load_encoder(path)
    return found


def figures(args: argparse.Namespace, results: dict[tuple[str, str], dict[str, Measured]]) -> Iterator[str]:
    """The tables, as Markdown."""
    yield f"Measured by `python benchmarks/scaling.py --clips {args.clips} --batch-size {args.batch_size}` on {machine()}:\n"
    engines = f"local, {THREADS} threads | Ray, {ACTORS} actors × 1 thread | Ray ÷ local"
    yield f"| 5 s WAV files to store | model | {engines} | bytes per clip | further bytes per shard |"
    yield "|---|---|---|---|---|---|---|"
    for (kept, model), by in results.items():
        one, many = by["local"], by["ray"]
        rates = f"{one.rate:.2f} clips/s | {many.rate:.2f} clips/s | {many.rate / one.rate:.2f}"
        yield f"| {kept} | {model} | {rates} | {one.clip_bytes:,} | {one.shard_bytes:,} |"
    start = max(by["ray"].start for by in results.values())
    wait = "(actors start, import torch and open the checkpoint), which the rates leave out"
    yield f"\nRay needs {start:.0f} s before its first clip {wait}.\n"
    yield f"{MILLIONS} million clips, in shards of {SHARD_CLIPS}, by the faster of the two, at an assumed {args.price} $ per core-hour:\n"
    yield f"| | model | core-hours | on {ACTORS} cores | on {CORES} cores | disk | money |"
    yield "|---|---|---|---|---|---|---|"
    count = MILLIONS * 1_000_000
    for (kept, model), by in results.items():
        hours = count / max(m.rate for m in by.values()) / 3600
        disk = (count * by["local"].clip_bytes + count / SHARD_CLIPS * by["local"].shard_bytes) / 1e9
        work = hours * ACTORS
        costs = f"{work:,.0f} | {hours / 24:.1f} days | {work / CORES:.1f} hours | {disk:,.0f} GB | {work * args.price:,.2f} $"
        yield f"| {kept} | {model} | {costs} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=320, help="a multiple of 16 × the batch size, so that both actors end together")
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--price", type=float, default=0.04, help="$ per core-hour; an assumption, give yours")
    parser.add_argument("--page", type=Path, help="write the figures into this page, between its markers")
    args = parser.parse_args()
    if args.clips % (8 * ACTORS * args.batch_size) or args.clips < 16 * ACTORS * args.batch_size:
        parser.error(f"--clips must be a multiple of {8 * ACTORS * args.batch_size}, and at least twice that")
    torch.set_num_threads(THREADS)
    results: dict[tuple[str, str], dict[str, Measured]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_sounds(folder / "clips" / "noise", args.clips)
        data = load_dataset(f"folder:{folder / 'clips'}")
        for model, encoder in models(folder).items():
            # Exported files have no direct shares.
            for granularity in (PLAIN,) if "OpenVINO" in model else (PLAIN, DIRECT):
                out = folder / f"{model}-{len(granularity)}"
                local = measure(encoder, data, out / "local", granularity, args.batch_size)
                spread = measure(encoder, data, out / "ray", granularity, args.batch_size, engine="ray", actors=ACTORS)
                results["+".join(granularity), model] = {"local": local, "ray": spread}
    text = "\n".join(figures(args, results)) + "\n"
    print(text)
    if args.page:
        args.page.write_text(BLOCK.sub(lambda _: text, args.page.read_text()))


if __name__ == "__main__":
    main()
