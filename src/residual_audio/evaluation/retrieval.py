"""Find clips by captions and captions by clips: rank of the first hit, recall, mean average precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array
from torch import Tensor

from ..data import Dataset
from ..media import MediaError
from ..models import Encoder
from .readout import EvaluationError
from .significance import mean_interval

CUTS = (1, 5, 10)
DEPTH = 10
# Queries whose scores are held at once: memory stays small however many captions there are.
AT_ONCE = 512
DIRECTIONS = ("text→audio", "audio→text")


@dataclass(frozen=True)
class Ranking:
    """One number a query. ``rank``: of its best positive (0: found first); ``precision``: average precision among the first ten.

    An equal score counts against the positive, so a model that tells nothing apart finds nothing.
    """

    rank: Int[np.ndarray, " query"]
    precision: Float[np.ndarray, " query"]
    positives: Int[np.ndarray, " query"]

    def measures(self) -> dict[str, np.ndarray]:
        """Per query: found among the first 1, 5, 10? And average precision; the means over queries are R@k and mAP@10."""
        return {**{f"R@{k}": (self.rank < k).astype(float) for k in CUTS}, f"mAP@{DEPTH}": self.precision}


def rank_queries(scores: Float[np.ndarray, "query item"], relevant: Bool[np.ndarray, "query item"], depth: int = DEPTH) -> Ranking:
    r"""Rank items by score for every query; each needs at least one positive.

    $AP@k = \frac{1}{\min(P, k)} \sum_{i \le k} \mathrm{precision}(i)\, \mathrm{relevant}(i)$ with P positives: 1 if and only if the
    first min(P, k) items are all positive.
    """
    if not np.isfinite(scores).all():
        raise EvaluationError("similarities that are not finite cannot be ranked; the encoder gave a broken embedding")
    positives = relevant.sum(1)
    if not positives.all():
        raise EvaluationError("every query needs at least one positive")
    best = np.where(relevant, scores, -np.inf).max(1, keepdims=True)
    rank = ((scores >= best) & ~relevant).sum(1)
    # Sorted by falling score; among equals the negatives come first.
    order = np.lexsort((relevant, -scores), axis=-1)[:, :depth]
    hits = np.take_along_axis(relevant, order, 1)
    precision = hits.cumsum(1) / np.arange(1, hits.shape[1] + 1)
    return Ranking(rank, (precision * hits).sum(1) / np.minimum(positives, depth), positives)


def rank_embeddings(queries: Float[np.ndarray, "query d"], items: Float[np.ndarray, "item d"], relevant: csr_array) -> Ranking:
    """:func:`rank_queries` by cosine of unit vectors, some hundred queries at a time."""
    parts = [
        rank_queries(queries[i : i + AT_ONCE] @ items.T, relevant[i : i + AT_ONCE].toarray().astype(bool))
        for i in range(0, len(queries), AT_ONCE)
    ]
    return Ranking(*(np.concatenate([getattr(p, name) for p in parts]) for name in ("rank", "precision", "positives")))


def caption_pairs(dataset: Dataset) -> tuple[list[str], csr_array]:
    """The different captions in the order of their first clip, and which clips each is true of ``[text, clip]``.

    A caption that several clips share is one query, and all of them are its positives.
    """
    place: dict[str, int] = {}
    pairs = {
        (place.setdefault(text, len(place)), row)
        for row, clip in enumerate(dataset.clips)
        for text in (" ".join(caption.split()) for caption in clip.captions)
        if text
    }
    rows, columns = np.array(sorted(pairs), dtype=int).reshape(-1, 2).T
    return list(place), csr_array((np.ones(len(rows), dtype=bool), (rows, columns)), shape=(len(place), len(dataset)))


@dataclass(frozen=True)
class RetrievalResult:
    """Both directions on the clips that could be read. Clips without a caption are candidates, but no queries."""

    dataset: Dataset
    texts: list[str]
    by_text: Ranking
    by_audio: Ranking
    asking: Int[np.ndarray, " captioned"]
    errors: dict[str, str]
    seed: int = 0

    def _each(self) -> Iterator[tuple[str, int, Ranking]]:
        sizes = (len(self.dataset), len(self.texts))
        yield from zip(DIRECTIONS, sizes, (self.by_text, self.by_audio), strict=True)

    def table(self) -> pd.DataFrame:
        """One row a direction and measure: its mean over queries with a 95 % bootstrap interval over queries."""
        return pd.DataFrame(
            [
                {"direction": way, "measure": name, "queries": len(values), "candidates": items}
                | mean_interval(values, seed=self.seed)._asdict()
                for way, items, ranking in self._each()
                for name, values in ranking.measures().items()
            ]
        )

    def queries(self) -> pd.DataFrame:
        """One row a query: what was asked, how many positives there are, and where the first one stands (1: on top)."""
        asked = (self.texts, [self.dataset.clips[i].id for i in self.asking])
        return pd.concat(
            [
                pd.DataFrame(
                    {
                        "direction": way,
                        "query": names,
                        "positives": ranking.positives,
                        "rank": ranking.rank + 1,
                        "average_precision": ranking.precision,
                    }
                )
                for (way, _, ranking), names in zip(self._each(), asked, strict=True)
            ],
            ignore_index=True,
        )

    def against(self, base: RetrievalResult) -> pd.DataFrame:
        """This minus ``base``, query by query, with 95 % bootstrap intervals of the paired difference."""
        if self.texts != base.texts or [c.id for c in self.dataset.clips] != [c.id for c in base.dataset.clips]:
            raise EvaluationError("only results on the same clips and captions can be compared")
        rows = []
        for (way, _, mine), (_, _, theirs) in zip(self._each(), base._each(), strict=True):
            for name, values in mine.measures().items():
                interval = mean_interval(values - theirs.measures()[name], seed=self.seed)
                rows.append({"direction": way, "measure": name, "difference": interval.value, "low": interval.low, "high": interval.high})
        return pd.DataFrame(rows)


def retrieve(
    encoder: Encoder,
    dataset: Dataset,
    batch_size: int = 16,
    workers: int | None = None,
    seed: int = 0,
    advance: Callable[[int], object] | None = None,
) -> RetrievalResult:
    """Rank all clips for every caption and all captions for every clip. Broken clips are left out and listed in ``errors``."""
    if not encoder.has_text:
        raise EvaluationError(f"{encoder.name} has no text side; retrieval needs an audio–text model such as tiny or a CLAP checkpoint")
    texts, _ = caption_pairs(dataset)
    if not texts:
        raise EvaluationError(
            f"{dataset.name} has no captions. Give a CSV or Parquet file with the columns path and caption (--caption A,B,… for columns of "
            "other names or several captions a clip), hf:REPO with --caption COLUMN, or try synthetic-captions"
        )
    # Texts first: a missing tokenizer should be told before an hour of audio is encoded.
    embedded = encoder.embed_text(texts).double().cpu().numpy()
    outcomes = encoder.embed_outcomes([c.source for c in dataset.clips], batch_size, workers, advance)
    errors = {c.id: str(o) for c, o in zip(dataset.clips, outcomes, strict=True) if isinstance(o, MediaError)}
    readable = replace(dataset, clips=tuple(c for c in dataset.clips if c.id not in errors))
    kept, relevant = caption_pairs(readable)
    if not kept:
        first = next(iter(errors.values()))
        raise EvaluationError(f"{dataset.name}: no clip with a caption could be read; the first error: {first}")
    audio = torch.stack([o for o in outcomes if isinstance(o, Tensor)]).double().cpu().numpy()
    position = {text: i for i, text in enumerate(texts)}
    words = embedded[[position[text] for text in kept]]
    asking = np.flatnonzero(relevant.sum(0))
    by_audio = rank_embeddings(audio[asking], words, csr_array(relevant.T)[asking])
    return RetrievalResult(readable, kept, rank_embeddings(words, audio, relevant), by_audio, asking, errors, seed)
