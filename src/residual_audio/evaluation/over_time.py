"""Listen to a recording of any length: scores of texts over time, and the seconds where each is heard."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from safetensors.torch import save_file
from torch import Tensor

from ..audio import AudioSource, Preprocessing, Waveform, duration
from ..audio.decode import rendered
from ..audio.windows import sliding
from ..data.prompts import DEFAULT_TEMPLATE, templates
from ..media import name_of
from ..models import Encoder
from ..models.batching import prepared_ahead
from ..options import OptionError
from ..progress import progress
from ..results import Result, identity
from ..writing import drafted
from .directions import prompt_directions
from .errors import EvaluationError

EMBEDDINGS = "embeddings.safetensors"


@dataclass(frozen=True)
class OverTime(Result):
    """One row per window: ``starts`` and ``ends`` in seconds, cosines and probabilities of the texts, and the embedding.

    Probabilities are softmax over the texts at the model's own scale: what a text is heard *against* is the other texts.
    """

    record: ClassVar[str] = "over_time"

    texts: tuple[str, ...]
    starts: Float[np.ndarray, " window"]
    ends: Float[np.ndarray, " window"]
    embeddings: Float[Tensor, "window d"]
    cosines: Float[Tensor, "window text"]
    probabilities: Float[Tensor, "window text"]
    threshold: float
    made_by: dict[str, Any]
    errors: dict[str, str]

    @property
    def info(self) -> dict[str, Any]:
        return {**self.made_by, "texts": list(self.texts), "windows": len(self.starts), "seconds": float(self.ends[-1])}

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        return {"windows": self.windows(), "timeline": self.timeline(), "heard": self.heard()}

    def windows(self) -> pd.DataFrame:
        """One row per window and text: ``start``, ``end``, ``text``, ``cosine`` and ``probability``."""
        return self._rows(self.starts, self.ends, cosine=self.cosines.numpy(), probability=self.probabilities.numpy())

    def timeline(self) -> pd.DataFrame:
        """The same for the steps of time between neighbouring starts and ends of windows; ``probability`` is the mean of :meth:`steps`."""
        edges, means = self.steps()
        return self._rows(edges[:-1], edges[1:], probability=means)

    def _rows(self, starts: np.ndarray, ends: np.ndarray, **values: np.ndarray) -> pd.DataFrame:
        spans = {"start": np.repeat(starts, len(self.texts)), "end": np.repeat(ends, len(self.texts))}
        return pd.DataFrame({**spans, "text": list(self.texts) * len(starts), **{name: v.ravel() for name, v in values.items()}})

    def steps(self) -> tuple[Float[np.ndarray, " edge"], Float[np.ndarray, "step text"]]:
        """Every moment where a window starts or ends, and between neighbouring ones the mean probability of the windows over that time."""
        edges = np.unique(np.concatenate([self.starts, self.ends]))
        # Starts and ends both grow: the windows low … high − 1 lie over a step.
        low, high = np.searchsorted(self.ends, edges[:-1], side="right"), np.searchsorted(self.starts, edges[:-1], side="right")
        sums = np.concatenate([np.zeros((1, len(self.texts))), self.probabilities.double().numpy().cumsum(0)])
        return edges, (sums[high] - sums[low]) / (high - low)[:, None]

    def heard(self) -> pd.DataFrame:
        """Where a text's mean probability reaches the threshold: ``text``, ``start``, ``end``, its highest and where that is (``peak``)."""
        edges, means = self.steps()
        rows = []
        for text, values in zip(self.texts, means.T, strict=True):
            turns = np.flatnonzero(np.diff(np.concatenate([[False], values >= self.threshold, [False]])))
            for first, after in turns.reshape(-1, 2):
                top = first + int(values[first:after].argmax())
                rows.append((text, edges[first], edges[after], values[top], (edges[top] + edges[top + 1]) / 2))
        table = pd.DataFrame(rows, columns=["text", "start", "end", "probability", "peak"])
        return table.sort_values(["start", "text"], ignore_index=True)

    def write(self, folder: str | Path) -> Path:
        """Beside the tables and ``over_time.json``: ``embeddings.safetensors``, one row per window."""
        with drafted(Path(folder) / EMBEDDINGS) as path:
            save_file({"embeddings": self.embeddings, "start": torch.from_numpy(self.starts), "end": torch.from_numpy(self.ends)}, path)
        return super().write(folder)


def embed_windows(
    encoder: Encoder,
    source: AudioSource,
    window: float | None = None,
    hop: float | None = None,
    batch_size: int = 16,
    workers: int | None = None,
) -> Iterator[tuple[list[tuple[float, float]], Float[Tensor, "window d"]]]:
    """Unit-length embeddings of the windows of a recording, batch by batch, each with the seconds where its windows start and end.

    ``window``: its length in seconds, by default and at most the model's own; a shorter one is padded as short clips are.
    ``hop``: from start to start, by default half a window. A few batches are in memory, however long the recording is.
    """
    policy = encoder.policy
    if not isinstance(policy, Preprocessing):
        raise EvaluationError(f"{encoder.name} takes images: there is nothing to hear over time")
    length, step = window_samples(policy, window, hop)
    rate = policy.sample_rate
    spans: list[tuple[float, float]] = []

    def sources() -> Iterator[Waveform]:
        for part in sliding(source, rate, length, step):
            spans.append((part.start / rate, (part.start + len(part.samples)) / rate))
            yield Waveform(part.samples, rate)

    batch = []
    for prepared in prepared_ahead(sources(), encoder.prepare, workers, ahead=2 * batch_size):
        if isinstance(prepared, Exception):
            raise prepared
        batch.append(prepared)
        if len(batch) == batch_size:
            yield [spans.pop(0) for _ in batch], encoder.embed_prepared(batch)
            batch = []
    if batch:
        yield [spans.pop(0) for _ in batch], encoder.embed_prepared(batch)


def window_samples(policy: Preprocessing, window: float | None, hop: float | None) -> tuple[int, int]:
    """Both as samples; by default the model's own window and half of it."""
    length = policy.seconds if window is None else window
    if not 0 < length <= policy.seconds:
        raise OptionError(f"--window {length:g}: the model hears {policy.seconds:g} s at a time; give more than 0 and at most that")
    step = length / 2 if hop is None else hop
    if not 0 < step <= length:
        raise OptionError(f"--hop {step:g}: windows of {length:g} s must follow each other without gaps; give more than 0 and at most that")
    samples = [round(seconds * policy.sample_rate) for seconds in (length, step)]
    if not all(samples):
        raise OptionError(f"--window {length:g} --hop {step:g}: less than a sample at {policy.sample_rate} Hz")
    return samples[0], samples[1]


def over_time(
    encoder: Encoder,
    source: AudioSource,
    texts: Sequence[str],
    *,
    window: float | None = None,
    hop: float | None = None,
    threshold: float = 0.5,
    template: str | None = None,
    batch_size: int = 16,
    workers: int | None = None,
    advance: Callable[[int], object] | None = None,
) -> OverTime:
    """Score a recording against texts, window by window. Sound is streamed: only embeddings and scores grow with its length.

    ``texts``: at least two different ones, since each is heard against the others; ``template``: what is put around them.
    ``window`` and ``hop`` as in :func:`embed_windows`; ``threshold``: the mean probability from which on a text counts as heard.
    """
    if len(set(texts)) < 2 or len(set(texts)) < len(texts):
        raise OptionError('give at least two different texts: each is heard against the others. For one sound, add "background noise"')
    if not encoder.has_text:
        raise EvaluationError(f"{encoder.name} has no text side, so it cannot be asked for texts; see `residual-audio models`")
    if not 0 < threshold < 1:
        raise OptionError(f"--threshold {threshold:g}: a probability between 0 and 1 is expected")
    directions = prompt_directions(encoder, texts, templates(template or DEFAULT_TEMPLATE)).cpu().float()
    spans, vectors = [], []
    with progress(f"listening to {name_of(source)}", expected_windows(encoder, source, window, hop), advance) as heard:
        for places, embedded in embed_windows(encoder, source, window, hop, batch_size, workers):
            spans += places
            vectors.append(embedded.cpu().float())
            heard(len(places))
    embeddings = torch.cat(vectors)
    cosines = embeddings @ directions.T
    starts, ends = (np.array(side) for side in zip(*spans, strict=True))
    settings = {"window": window, "hop": hop, "threshold": threshold, "template": template or DEFAULT_TEMPLATE, "batch_size": batch_size}
    made_by = {**identity(encoder), "recording": name_of(source), "settings": settings}
    probabilities = (encoder.logit_scale * cosines).softmax(-1)
    return OverTime(tuple(texts), starts, ends, embeddings, cosines, probabilities, threshold, made_by, {})


def expected_windows(encoder: Encoder, source: AudioSource, window: float | None = None, hop: float | None = None) -> int:
    """How many windows there will be if the header tells the truth; for a progress bar."""
    assert isinstance(encoder.policy, Preprocessing)
    length, step = window_samples(encoder.policy, window, hop)
    samples = duration(rendered(source)) * encoder.policy.sample_rate
    return 1 + max(0, math.ceil((samples - length) / step))
