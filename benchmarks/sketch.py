"""What sketches of attention matrices lose: ``PYTHONPATH=. python benchmarks/sketch.py [MODEL [DATASET [SECONDS]]]``, a minute on one core.

Prints, over all heads, the ratio of d_PCA99 and of the participation ratio by a sketch to those of the whole matrices: mean, smallest and
largest. The whole ones are recorded with a sketch as long as the matrix, which is an isometry. Default: `tiny`, whose matrices have 256
numbers, on 48 of the built-in notes.
"""

import sys

import numpy as np
import torch

import residual_audio as ra
from residual_audio.analysis.dimension import spectral_values
from residual_audio.extraction.capture import Capture
from residual_audio.models.batching import as_batch
from residual_audio.spectra import Sketch

CLIPS, BATCH = 48, 8
SIZES = (128, 512, 2048)


def spectra(points: torch.Tensor) -> dict[str, np.ndarray]:
    """Of each head, from the Gram matrix of its clips, which is small however long a vector is."""
    heads = [(h - h.mean(0)).double() for h in points.unbind(1)]
    return spectral_values(torch.stack([torch.linalg.eigvalsh(h @ h.mT).flip(-1).clamp_min(0) for h in heads]))


def main() -> None:
    model, dataset, seconds = sys.argv[1:4] + ["tiny", "notes", ""][len(sys.argv) - 1 :]
    encoder, data = ra.load_encoder(model, seconds=float(seconds) if seconds else None), ra.load_dataset(dataset)
    chosen = [data.clips[i] for i in np.linspace(0, len(data) - 1, CLIPS).astype(int)]
    capture, rows = Capture(encoder, ("attention",), sketch=10**9), []
    for start in range(0, CLIPS, BATCH):
        features, longer, _ = as_batch(encoder, [encoder.prepare(c.source) for c in chosen[start : start + BATCH]])
        rows.append(capture.run(features, longer).arrays)
    for stage in range(len(encoder.stages)):
        whole = torch.cat([r[f"attention.{stage}"] for r in rows])
        d = whole.shape[-1]
        exact = spectra(whole)
        for size in (s for s in SIZES if s < d):
            short = Sketch.of(d, size)(whole.flatten(0, 1)).unflatten(0, whole.shape[:2])
            found = spectra(short)
            ratios = {name: found[name] / exact[name] for name in ("pca_99", "participation_ratio")}
            said = ", ".join(f"{name} {r.mean():.3f} [{r.min():.3f}, {r.max():.3f}]" for name, r in ratios.items())
            print(f"{encoder.name} stage {stage}: {size} of {d:,} numbers, {CLIPS} clips: {said}")


if __name__ == "__main__":
    main()
