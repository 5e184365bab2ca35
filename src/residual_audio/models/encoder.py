"""What an encoder is to the rest of the package, whichever checkpoint it came from.

An adapter (clap.py, msclap.py, …) says how features become an embedding and NAMES the sites of its units;
it never repeats a forward pass of the model it adapts.
"""

from __future__ import annotations

import hashlib
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..audio import AudioSource, Prepared, Preprocessing, as_sources
from ..images import ImagePreprocessing
from ..media import MediaError
from ..units import UnitTable
from .batching import prepared_ahead


class EncoderError(ValueError):
    """An encoder that cannot be opened or asked that; the message says what to do next."""


@dataclass(frozen=True)
class BlockSite:
    """Where one block's units write. Names are paths of sub-modules, as ``module.get_submodule`` takes them.

    ``module``: the block itself; ``attention``: the part of it that returns the attention's write first;
    ``projection``: the linear layer whose *input* is the concatenation of the head outputs and whose output is
    the attention's write; ``mlp``: the module whose *output* is the MLP's write; ``entry``: the norm whose
    *input* is the stream that enters the block. ``window`` is the side of its attention windows (0: one window
    over everything), ``shift`` how far they are moved.
    """

    stage: int
    block: int
    heads: int
    module: str
    attention: str
    projection: str
    mlp: str
    entry: str
    window: int = 0
    shift: int = 0


@dataclass(frozen=True)
class StageSite:
    """One resolution: its grid of tokens, and the norm and linear layer that merge 2 × 2 of them at its end, if any.

    A merge concatenates the tokens of a group in the order (row, column) = (0,0), (1,0), (0,1), (1,1).
    """

    grid: tuple[int, int]
    merge_norm: str | None = None
    merge_linear: str | None = None

    @property
    def merge(self) -> str | None:
        """The module that merges."""
        return self.merge_norm.rpartition(".")[0] if self.merge_norm else None


@dataclass(frozen=True)
class ReadoutSite:
    """From the last stream to the embedding: ``norm``, a mean over ``tokens`` (None: all), and the joint projection.

    ``joint``: ``none`` (the pooled output is the embedding), ``linear`` (W₁x), ``mlp`` (linear–activation–linear) or ``residual``
    (LN(e + W₂·act(e)), e = W₁x); ``linear1``, ``linear2`` and ``joint_norm`` name its parts.
    """

    norm: str
    tokens: tuple[int, ...] | None = None
    joint: Literal["none", "linear", "mlp", "residual"] = "none"
    linear1: str | None = None
    linear2: str | None = None
    joint_norm: str | None = None


class Encoder(ABC):
    """An encoder of sounds (or images: vision.py) with its preprocessing, its units and, where the checkpoint has one, its text side."""

    name: str
    revision: str
    module: nn.Module
    policy: Preprocessing | ImagePreprocessing
    units: UnitTable
    sites: tuple[BlockSite, ...]
    stages: tuple[StageSite, ...]
    readout: ReadoutSite
    # How many strips of time the first grid axis holds above each other: HTS-AT folds long spectrograms into a square.
    strips: int = 1
    dim: int
    logit_scale: float
    filters: Float[Tensor, "bin mel"] | None = None

    @abstractmethod
    def encode(self, features: Float[Tensor, "clip channel frame mel"], longer: Bool[Tensor, " clip"]) -> Float[Tensor, "clip d"]:
        """Model inputs → embeddings in the joint space, not normalised; differentiable."""

    @abstractmethod
    def run_block(self, site: BlockSite, stream: Float[Tensor, "clip token width"]) -> Float[Tensor, "clip token width"]:
        """One block of the model, by calling it."""

    def read(self, stream: Float[Tensor, "clip token width"]) -> Float[Tensor, "clip d"]:
        """From the stream that leaves the last block to the embedding."""
        normed = self.module.get_submodule(self.readout.norm)(stream)
        pooled = (normed if self.readout.tokens is None else normed[:, list(self.readout.tokens)]).mean(1)
        if self.readout.joint == "none":
            return pooled
        if self.readout.joint == "linear":
            return self.module.get_submodule(self.readout.linear1)(pooled)
        return self.module.get_submodule(self.readout.linear1.rpartition(".")[0])(pooled)

    def resume(self, stream: Float[Tensor, "clip token width"], block: int, stop: int | None = None) -> Tensor:
        """Go on from the stream that enters block number ``block``: to the embedding, or to the stream that enters block ``stop``.

        Invariant: resuming from what entered a block gives what the whole forward gave, to rounding.
        """
        for i in range(block, len(self.sites) if stop is None else stop):
            site = self.sites[i]
            stream = self.run_block(site, stream)
            stage = self.stages[site.stage]
            if stage.merge and (i + 1 == len(self.sites) or self.sites[i + 1].stage != site.stage):
                stream = self.module.get_submodule(stage.merge)(stream, stage.grid)
        return self.read(stream) if stop is None else stream

    def encode_text(self, texts: Sequence[str]) -> Float[Tensor, "text d"]:
        """Texts → embeddings in the joint space, not normalised."""
        raise EncoderError(f"{self.name} has no text side; classify with class centroids instead of prompts (--classifier centroid)")

    @property
    def has_text(self) -> bool:
        return type(self).encode_text is not Encoder.encode_text

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.module.parameters()).dtype

    def prepare(self, source: AudioSource) -> Prepared:
        """A sound as this model's input."""
        return self.policy.prepare(source, self.filters)

    def as_sources(self, clips: Sequence[object], sample_rate: int | None) -> list[AudioSource]:
        """What a user passes to :meth:`embed`, as :meth:`prepare` takes it."""
        return as_sources(clips, sample_rate)

    @torch.inference_mode()
    def embed_prepared(self, clips: Sequence[Prepared]) -> Float[Tensor, "clip d"]:
        """Unit-length embeddings; a clip of several windows gets the mean direction of its windows."""
        features = torch.cat([c.features for c in clips]).to(self.device, self.dtype)
        windows = [len(c.features) for c in clips]
        longer = torch.tensor([c.longer for c in clips], device=self.device)
        embedded = F.normalize(self.encode(features, longer.repeat_interleave(torch.tensor(windows, device=self.device))), dim=-1)
        return F.normalize(torch.stack([part.mean(0) for part in embedded.split(windows)]), dim=-1)

    def embed_outcomes(
        self,
        sources: Sequence[AudioSource],
        batch_size: int = 16,
        workers: int | None = None,
        advance: Callable[[int], object] | None = None,
    ) -> list[Tensor | MediaError]:
        """One unit-length embedding a source, or the error that source raised. ``advance(n)`` is told of progress."""
        results: list[Tensor | MediaError | None] = [None] * len(sources)
        rows: list[int] = []
        batch: list[Prepared] = []

        def flush() -> None:
            if batch:
                for row, vector in zip(rows, self.embed_prepared(batch), strict=True):
                    results[row] = vector
            batch.clear()
            rows.clear()

        for row, outcome in enumerate(prepared_ahead(sources, self.prepare, workers, ahead=2 * batch_size)):
            if isinstance(outcome, MediaError):
                results[row] = outcome
            else:
                rows.append(row)
                batch.append(outcome)
            if len(batch) >= batch_size:
                flush()
            if advance is not None:
                advance(1)
        flush()
        return [r for r in results if r is not None]

    def embed(
        self,
        clips: Sequence[object],
        sample_rate: int | None = None,
        batch_size: int = 16,
        workers: int | None = None,
        advance: Callable[[int], object] | None = None,
    ) -> Float[Tensor, "clip d"]:
        """Unit-length embeddings of paths, or of arrays (sounds with their ``sample_rate``); an unreadable clip raises."""
        if isinstance(clips, str | Path):
            clips = [clips]
        outcomes = self.embed_outcomes(self.as_sources(clips, sample_rate), batch_size, workers, advance)
        for outcome in outcomes:
            if isinstance(outcome, MediaError):
                raise outcome
        return torch.stack([o for o in outcomes if isinstance(o, Tensor)]) if outcomes else torch.zeros(0, self.dim)

    @torch.inference_mode()
    def embed_text(self, texts: Sequence[str], batch_size: int = 64) -> Float[Tensor, "text d"]:
        """Unit-length embeddings of texts."""
        if isinstance(texts, str):
            texts = [texts]
        parts = [self.encode_text(list(texts[i : i + batch_size])) for i in range(0, len(texts), batch_size)]
        return F.normalize(torch.cat(parts), dim=-1) if parts else torch.zeros(0, self.dim)

    def save(self, folder: Path) -> Path:
        """Write the model as a checkpoint of the layout it came from, into an empty or new directory."""
        raise EncoderError(f"{type(self).__name__} cannot be written")

    def __repr__(self) -> str:
        heads, blocks = len(self.units.where("head")), len(self.units.blocks)
        return f"<{type(self).__name__} {self.name} · {heads} heads, {blocks} blocks, d = {self.dim}, policy {self.policy.hash}>"


def copy_companions(source: str, folder: Path, names: Sequence[str]) -> None:
    """Copy small files (feature extractor, tokenizer) beside written weights, where the checkpoint has them."""
    from transformers.utils.hub import cached_file

    for name in names:
        found = cached_file(source, name, _raise_exceptions_for_missing_entries=False, _raise_exceptions_for_connection_errors=False)
        if found is not None:
            shutil.copyfile(found, folder / name)


def file_digest(path: Path) -> str:
    """A revision for weights that have no other: the start of their SHA-256."""
    with open(path, "rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()[:16]


def open_tokenizer(kind: type, source: str, hint: str):
    """``kind.from_pretrained(source)``, refusing the empty tokenizer that transformers makes up when there are no files."""
    try:
        tokenizer = kind.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise EncoderError(f"no tokenizer at {source} ({str(error).splitlines()[0]}); {hint}") from error
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise EncoderError(f"no tokenizer at {source}; {hint}")
    return tokenizer
