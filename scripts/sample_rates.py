"""What it costs to hear at the wrong rate: Microsoft's CLAP expects 44.1 kHz, and mteb up to 2.24 gave it 48 kHz.

Prints how far the embeddings of the bundled notes move, on seeded weights of the real layout, against how far notes are from each other:
`python scripts/sample_rates.py`. Needs nothing but the repository.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import soundfile
import soxr
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import residual_audio as ra  # noqa: E402
from tests.helpers.checkpoints import msclap  # noqa: E402

RIGHT, WRONG = 44_100, 48_000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        encoder = ra.load_encoder(msclap(Path(folder)))
        sounds = [soundfile.read(clip.path, dtype="float32") for clip in ra.load_dataset("notes").clips]
        right = encoder.embed([soxr.resample(samples, rate, RIGHT) for samples, rate in sounds], sample_rate=RIGHT)
        # 48,000 samples per second, taken for 44,100: everything is 8 % lower and slower, and the window ends 0.57 s earlier.
        wrong = encoder.embed([soxr.resample(samples, rate, WRONG) for samples, rate in sounds], sample_rate=RIGHT)
    moved, apart = (right - wrong).norm(dim=1), between(right)
    nearest = apart.min(1).values
    changed = apart.argmin(1) != between(wrong).argmin(1)
    print(f"{len(right)} notes, {encoder.dim} dimensions, seeded weights of Microsoft's layout")
    print(f"distance moved by the wrong rate, median: {moved.median():.4f}")
    print(f"distance to the nearest other note, median: {nearest.median():.4f}")
    print(f"notes that move further than to their nearest neighbour: {100 * (moved > nearest).float().mean():.0f} %")
    print(f"notes whose nearest neighbour changes: {100 * changed.float().mean():.0f} %")


def between(embeddings: torch.Tensor) -> torch.Tensor:
    """Distances between all pairs of different notes."""
    return torch.cdist(embeddings, embeddings).fill_diagonal_(float("inf"))


if __name__ == "__main__":
    main()
