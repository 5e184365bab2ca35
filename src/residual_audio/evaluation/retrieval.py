"""Find clips by captions and captions by clips: rank of the first hit, recall, mean average precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array

from ..data import Clip, Dataset
from ..models import Encoder
from ..results import Result, provenance
from .embedding import embed_readable
from .errors import EvaluationError
from .significance import mean_interval

CUTS = (1, 5, 10)
DEPTH = 10
# Queries whose scores are held at once: memory stays small however many captions there are.
AT_ONCE = 512
DIRECTIONS = ("text→audio", "audio→text")


@dataclass(frozen=True)
class Ranking:
    """One number per query. ``rank``: of its best positive (0: found first); ``precision``: average precision among the first ten.

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


def texts_of(clip: Clip) -> list[str]:
    """Its captions with their spaces tidied; empty ones do not count."""
    return [text for text in (" ".join(caption.split()) for caption in clip.captions) if text]


def caption_owners(dataset: Dataset, texts: Sequence[str]) -> Int[np.ndarray, " text"]:
    """The clip that each caption was written for: the one that lists it earliest among its captions, the first of equals."""
    best: dict[str, tuple[int, int]] = {}
    for row, clip in enumerate(dataset.clips):
        for place, text in enumerate(texts_of(clip)):
            best[text] = min(best.get(text, (place, row)), (place, row))
    return np.array([best[text][1] for text in texts], dtype=int)


def caption_pairs(dataset: Dataset) -> tuple[list[str], csr_array]:
    """The different captions in the order of their first clip, and which clips each is true of ``[text, clip]``.

    A caption that several clips share is one query, and all of them are its positives.
    """
    place: dict[str, int] = {}
    pairs = {(place.setdefault(text, len(place)), row) for row, clip in enumerate(dataset.clips) for text in texts_of(clip)}
    rows, columns = np.array(sorted(pairs), dtype=int).reshape(-1, 2).T
    return list(place), csr_array((np.ones(len(rows), dtype=bool), (rows, columns)), shape=(len(place), len(dataset)))


@dataclass(frozen=True)
class RetrievalResult(Result):
    """Both directions on the clips that could be read. Clips without a caption are candidates, but no queries.

    Intervals resample the groups that queries belong to: of a clip its own; of a caption that of the clip it was written for (``owners``,
    see :func:`caption_owners`). So all captions of a recording are drawn together, and one that many clips share still counts once.
    """

    record: ClassVar[str] = "retrieval"

    dataset: Dataset
    texts: list[str]
    by_text: Ranking
    by_audio: Ranking
    asking: Int[np.ndarray, " captioned"]
    owners: Int[np.ndarray, " text"]
    errors: dict[str, str]
    seed: int
    made_by: dict[str, Any]

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        return joined({"base": self})

    @property
    def info(self) -> dict[str, Any]:
        return {**self.made_by, "clips": {"used": len(self.dataset), "captions": len(self.texts), "errors": len(self.errors)}}

    def _each(self) -> Iterator[tuple[str, int, Ranking, np.ndarray]]:
        """By direction: its name, how many candidates, the ranking, and the group of each query."""
        sizes, groups = (len(self.dataset), len(self.texts)), np.array(self.dataset.groups)
        yield from zip(DIRECTIONS, sizes, (self.by_text, self.by_audio), (groups[self.owners], groups[self.asking]), strict=True)

    def table(self) -> pd.DataFrame:
        """One row per direction and measure: its mean over queries with a 95 % interval over their groups."""
        return pd.DataFrame(
            [
                {"direction": way, "measure": name, "queries": len(values), "candidates": items}
                | mean_interval(values, groups, seed=self.seed)._asdict()
                for way, items, ranking, groups in self._each()
                for name, values in ranking.measures().items()
            ]
        )

    def queries(self) -> pd.DataFrame:
        """One row per query: what was asked, how many positives there are, and where the first one stands (1: on top)."""
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
                for (way, _, ranking, _), names in zip(self._each(), asked, strict=True)
            ],
            ignore_index=True,
        )

    def against(self, base: RetrievalResult) -> pd.DataFrame:
        """This minus ``base``, query by query, with 95 % intervals of the paired difference over groups."""
        if self.texts != base.texts or [c.id for c in self.dataset.clips] != [c.id for c in base.dataset.clips]:
            raise EvaluationError("only results on the same clips and captions can be compared")
        rows = []
        for (way, _, own, groups), (_, _, theirs, _) in zip(self._each(), base._each(), strict=True):
            for name, values in own.measures().items():
                interval = mean_interval(values - theirs.measures()[name], groups, seed=self.seed)
                rows.append({"direction": way, "measure": name, "difference": interval.value, "low": interval.low, "high": interval.high})
        return pd.DataFrame(rows)


def joined(results: dict[str, RetrievalResult]) -> dict[str, pd.DataFrame]:
    """The tables of one or several models on the same clips; the column ``model`` tells them apart."""
    return {
        "retrieval": pd.concat([r.table().assign(model=name) for name, r in results.items()], ignore_index=True),
        "retrieval_queries": pd.concat([r.queries().assign(model=name) for name, r in results.items()], ignore_index=True),
    }


@dataclass(frozen=True)
class AdaptedRetrieval(Result):
    """A model without and with an adapter, on the same clips and captions; ``adapter`` says which."""

    record: ClassVar[str] = "retrieval"

    base: RetrievalResult
    adapted: RetrievalResult
    adapter: str

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        both = joined({"base": self.base, "adapted": self.adapted})
        return {**both, "retrieval_difference": self.adapted.against(self.base)}

    @property
    def info(self) -> dict[str, Any]:
        info = self.base.info
        return {**info, "settings": {**info["settings"], "adapter": self.adapter}}

    @property
    def errors(self) -> dict[str, str]:
        return self.base.errors


def retrieve(
    encoder: Encoder,
    dataset: Dataset,
    *,
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
            "other names or several captions per clip), hf:REPO with --caption COLUMN, or try synthetic-captions"
        )
    # Texts first: a missing tokenizer should be told before an hour of audio is encoded.
    embedded = encoder.embed_text(texts).double().cpu().numpy()
    readable, embeddings, errors = embed_readable(encoder, dataset, batch_size, workers, advance)
    kept, relevant = caption_pairs(readable)
    if not kept:
        first = next(iter(errors.values()))
        raise EvaluationError(f"{dataset.name}: no clip with a caption could be read; the first error: {first}")
    audio = embeddings.double().cpu().numpy()
    position = {text: i for i, text in enumerate(texts)}
    words = embedded[[position[text] for text in kept]]
    asking = np.flatnonzero(relevant.sum(0))
    owners = caption_owners(readable, kept)
    by_audio = rank_embeddings(audio[asking], words, csr_array(relevant.T)[asking])
    made_by = provenance(encoder, dataset)
    del made_by["dataset"]["classes"], made_by["dataset"]["folds"]  # labels and folds play no part
    made_by["settings"] = {"limit": dataset.notes.get("limit"), "batch_size": batch_size, "seed": seed}
    return RetrievalResult(readable, kept, rank_embeddings(words, audio, relevant), by_audio, asking, owners, errors, seed, made_by)
