"""An exported model against the live one, on clips and texts: largest differences, cosines, and what is lost of accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..audio import Prepared
from ..data import Dataset
from ..evaluation.directions import class_directions
from ..extraction.capture import Capture
from ..media import MediaError
from ..models import Encoder, EncoderError
from ..models.batching import as_batch, batches
from ..progress import progress
from .trace import CLIPS

TEXTS = ("this is the sound of a dog", "rain", "a very long text about bells and birds and trains that pass " * 12)
BATCHES = (1, 3, 5)  # by turns: none is as long as the example that was traced
MOST_ERROR = 1e-4  # of what float32 may differ, in units of the largest number of an array
assert CLIPS not in BATCHES


class ExportError(EncoderError):
    """A model that cannot be exported, or an export that is not close enough to it; nothing is written."""


@dataclass(frozen=True)
class Bounds:
    """What an export must keep. ``lost``: how many clips more it may get wrong, as a share of them; one clip is always allowed."""

    error: float | None = None
    cosine: float | None = None
    lost: float | None = None


# On recorded sounds the lowest cosine of `tiny` is 0.9994 in int8 and 0.9997 in bf16 (docs/export.md); other models are more sensitive.
BOUNDS = {"float32": Bounds(error=MOST_ERROR), "bf16": Bounds(cosine=0.999, lost=0.02), "int8": Bounds(cosine=0.99, lost=0.02)}


@dataclass(frozen=True)
class Agreement:
    """Exported against live. ``errors``: the largest difference of each array, in units of its largest number."""

    clips: int
    errors: dict[str, float]
    cosine: float
    accuracy: tuple[float, float] | None = None
    text_error: float | None = None

    @property
    def lost_clips(self) -> int:
        """How many more the export gets wrong."""
        return 0 if self.accuracy is None else round((self.accuracy[0] - self.accuracy[1]) * self.clips)

    def record(self) -> dict[str, object]:
        """As the file keeps it."""
        return asdict(self)

    def lines(self) -> list[str]:
        """For people."""
        name, worst = max(self.errors.items(), key=lambda item: item[1])
        told = [f"on {self.clips} clips: largest difference {worst:.1e} of an array's scale ({name}), lowest cosine {self.cosine:.6f}"]
        if self.accuracy is not None:
            told.append(f"zero-shot accuracy {100 * self.accuracy[0]:.1f} % live, {100 * self.accuracy[1]:.1f} % exported")
        if self.text_error is not None:
            told.append(f"text side: largest difference {self.text_error:.1e} of its scale")
        return told

    def broken(self, bounds: Bounds) -> str:
        """Which bound is not kept; empty where all are."""
        name, worst = max(self.errors.items(), key=lambda item: item[1])
        if bounds.error is not None and not worst <= bounds.error:
            return f"{name} differs by {worst:.1e} of its scale, and at most {bounds.error:.0e} is allowed"
        if self.text_error is not None and not self.text_error <= MOST_ERROR:
            return f"texts differ by {self.text_error:.1e} of their scale, and at most {MOST_ERROR:.0e} is allowed"
        if bounds.cosine is not None and not self.cosine >= bounds.cosine:
            return f"the lowest cosine is {self.cosine:.4f}, and at least {bounds.cosine} is asked for (--least-cosine)"
        if bounds.lost is not None and self.accuracy is not None and self.lost_clips > max(1, bounds.lost * self.clips):
            return f"zero-shot accuracy falls from {100 * self.accuracy[0]:.1f} to {100 * self.accuracy[1]:.1f} %"
        return ""


def noises(encoder: Encoder, count: int = 9) -> list[Prepared]:
    """For encoders of images, of which none come with the package: noise, more and less of it."""
    base = encoder.prepare(encoder.policy.noise())
    return [Prepared(base.features * scale, base.longer) for scale in np.linspace(0.2, 1.0, count)]


def prepared_clips(encoder: Encoder, dataset: Dataset, workers: int | None) -> tuple[list[Prepared], list[int]]:
    """The readable clips of a dataset, and which they are."""
    clips: list[Prepared] = []
    rows: list[int] = []
    for batch in batches([c.source for c in dataset.clips], encoder.prepare, 16, workers):
        clips += batch.clips
        rows += batch.rows
    return clips, rows


def compare(
    live: Encoder, exported: Encoder, dataset: Dataset | None, record: Sequence[str], workers: int | None = None
) -> Agreement:  # fmt: skip
    """Every recorded array of every clip, token moments, accuracy where there are classes and texts, and texts."""
    if dataset is None:
        clips, rows = noises(live), list[int]()
    else:
        clips, rows = prepared_clips(live, dataset, workers)
        if not clips:
            raise MediaError(f"none of the clips of {dataset.name} can be read; the export cannot be checked on them")
    captures = [Capture(encoder, record) for encoder in (live, exported)]
    differences: dict[str, float] = {}
    scales: dict[str, float] = {}
    embedded: list[list[Tensor]] = [[], []]
    start, turn = 0, 0
    with progress("checking the export: clips", len(clips)) as advance:
        while start < len(clips):
            part = clips[start : start + BATCHES[turn % len(BATCHES)]]
            features, longer, windows = as_batch(live, part)
            results = [capture.run(features, longer) for capture in captures]
            pairs = {name: (value, results[1].arrays[name]) for name, value in results[0].arrays.items()}
            if results[0].moments is not None and results[1].moments is not None:
                pairs |= {f"moments.{k}": (getattr(results[0].moments, k), getattr(results[1].moments, k)) for k in ("total", "second")}
            for name, (ours, theirs) in pairs.items():
                if ours.shape != theirs.shape:
                    raise ExportError(f"{live.name}: {name} is {tuple(theirs.shape)} when exported and {tuple(ours.shape)} live")
                gap = (ours - theirs).abs().max().nan_to_num(torch.inf)
                differences[name] = max(differences.get(name, 0.0), float(gap))
                scales[name] = max(scales.get(name, 0.0), float(ours.abs().max()))
            for side, result in zip(embedded, results, strict=True):
                unit = F.normalize(result.arrays["embedding.joint"], dim=-1)
                side += [F.normalize(w.mean(0), dim=-1) for w in unit.split(windows)]
            start, turn = start + len(part), turn + 1
            advance(len(part))
    ours, theirs = (torch.stack(side) for side in embedded)
    accuracy = text_error = None
    if exported.has_text:
        text_error = scaled(live.encode_text(TEXTS), exported.encode_text(TEXTS))
        if dataset is not None and len(dataset.labels) > 1:
            accuracy = accuracies(live, exported, dataset, rows, ours, theirs)
    errors = {name: gap / (scales[name] or 1.0) for name, gap in differences.items()}
    return Agreement(len(clips), errors, float((ours * theirs).sum(-1).min()), accuracy, text_error)


@torch.inference_mode()
def scaled(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference in units of the largest number."""
    return float((ours - theirs).abs().max() / ours.abs().max())


def accuracies(live: Encoder, exported: Encoder, dataset: Dataset, rows: list[int], ours: Tensor, theirs: Tensor) -> tuple[float, float]:
    """Of both encoders, each with its own text side."""
    truth = torch.tensor([dataset.labels.index(dataset.clips[row].label) for row in rows])
    sides = ((live, ours), (exported, theirs))
    guesses = [(embedding @ class_directions(encoder, dataset).mT).argmax(-1) for encoder, embedding in sides]
    before, after = (float((guess == truth).float().mean()) for guess in guesses)
    return before, after
