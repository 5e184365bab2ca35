"""What an encoder is to the rest of the package, whichever checkpoint it came from.

An adapter (encoders/clap.py, encoders/msclap.py, …) says how features become an embedding and NAMES the sites of its units;
it never repeats a forward pass of the model it adapts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..audio import AudioSource, Prepared, Preprocessing, as_sources
from ..images import ImagePreprocessing, ImageSource
from ..media import MediaError, reading
from ..progress import progress
from ..spectra import Moments
from ..units import UnitTable
from ..writing import drafted_folder, own_folder
from .batching import as_batch, batches
from .loading import Loaded
from .readout import Readout
from .wording import Wording

Kind = TypeVar("Kind", bound=nn.Module)
Media = Literal["sounds", "images"]
Source = AudioSource | ImageSource


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

    @property
    def key(self) -> tuple[int, int]:
        """(stage, block)."""
        return self.stage, self.block


@dataclass(frozen=True)
class StageSite:
    """One resolution: its grid of tokens, and the norm and linear layer that merge 2 × 2 of them at its end, if any.

    A merge concatenates the tokens of a group in the order (row, column) = (0,0), (1,0), (0,1), (1,1). ``lattice``: the rows
    (frequencies) and columns (times) of its last tokens, where the grid does not say it because summary tokens come before them.
    """

    grid: tuple[int, int]
    merge_norm: str | None = None
    merge_linear: str | None = None
    lattice: tuple[int, int] | None = None

    @property
    def merge(self) -> str | None:
        """The module that merges."""
        return self.merge_norm.rpartition(".")[0] if self.merge_norm else None


class Encoder(ABC):
    """An encoder of sounds or images with its preprocessing, its units and, where the checkpoint has one, its text side.

    ``policy`` decides what it takes: sounds or images. ``loading`` is how it was opened; None where nobody could open it again
    (it was changed in memory, or not made by ``load_encoder``).
    """

    name: str
    revision: str
    module: nn.Module
    policy: Preprocessing | ImagePreprocessing
    units: UnitTable
    sites: tuple[BlockSite, ...]
    stages: tuple[StageSite, ...]
    # How many strips of time the first grid axis holds above each other: HTS-AT folds long spectrograms into a square.
    strips: int = 1
    dim: int
    logit_scale: float
    precision: str = "float32"  # of products, as it is: float32, bf16 or (of exports) int8, never auto
    filters: Float[Tensor, "bin mel"] | None = None
    loading: Loaded | None = None
    repository: str | None = None  # of the hub, where the name does not say it
    card: str | None = None  # the README of a checkpoint that was changed here
    wording: Wording | None = None  # how texts become tokens; None where there is no text side
    replays: tuple[str, ...] | None = None  # what an exported file recorded; None: a network, of which hooks show everything
    _readout: Readout

    @abstractmethod
    def encode(self, features: Float[Tensor, "clip channel frame mel"], longer: Bool[Tensor, " clip"]) -> Float[Tensor, "clip d"]:
        """Model inputs → embeddings in the joint space, not normalised; differentiable."""

    @abstractmethod
    def run_block(self, site: BlockSite, stream: Float[Tensor, "clip token width"]) -> Float[Tensor, "clip token width"]:
        """One block of the model, by calling it."""

    @property
    def readout(self) -> Readout:
        """From the last stream to the embedding, with the weights that ``module`` has now."""
        return self._readout.bound(self.module)

    @readout.setter
    def readout(self, readout: Readout) -> None:
        self._readout = readout

    @property
    def media(self) -> Media:
        """What the encoder takes."""
        return "images" if isinstance(self.policy, ImagePreprocessing) else "sounds"

    @property
    def several_windows(self) -> bool:
        """Whether a long clip becomes several windows, whose results are averaged."""
        return isinstance(self.policy, Preprocessing) and self.policy.crop == "windows"

    def linear(self, name: str) -> nn.Linear:
        """The linear layer of that name."""
        return _as(nn.Linear, self.module.get_submodule(name), name)

    def layer_norm(self, name: str) -> nn.LayerNorm:
        """The norm of that name."""
        return _as(nn.LayerNorm, self.module.get_submodule(name), name)

    def read(self, stream: Float[Tensor, "clip token width"]) -> Float[Tensor, "clip d"]:
        """From the stream that leaves the last block to the embedding."""
        return self.readout.read(stream)

    def resume(
        self, stream: Float[Tensor, "clip token width"], block: int, stop: int | None = None
    ) -> Float[Tensor, "clip d"] | Float[Tensor, "clip token_then width_then"]:
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

    @property
    def tokenizer(self) -> Any:
        """Of the text side; resolved at the first text, so that work without texts needs none."""
        raise EncoderError(f"{self.name} has no text side; classify with class centroids instead of prompts (--classifier centroids)")

    def encode_tokens(self, ids: Int[Tensor, "text token"], mask: Int[Tensor, "text token"]) -> Float[Tensor, "text d"]:
        """Tokens → embeddings in the joint space, not normalised."""
        raise EncoderError(f"{self.name} has no text side")

    def encode_text(self, texts: Sequence[str]) -> Float[Tensor, "text d"]:
        """Texts → embeddings in the joint space, not normalised."""
        return self.encode_tokens(*(part.to(self.device) for part in (self.wording or Wording()).tokens(self.tokenizer, texts)))

    @property
    def has_text(self) -> bool:
        return self.wording is not None

    def replay(self, features: Float[Tensor, "clip _ _ _"], wanted: Collection[str]) -> tuple[dict[str, Tensor], Moments | None]:
        """What ``replays`` has of a batch, as extraction stores it: arrays with one row per window, and moments over all tokens."""
        raise EncoderError(f"{self.name} is no exported file; its sites are recorded as it runs")

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.module.parameters()).dtype

    def prepare(self, source: Source) -> Prepared:
        """A sound or an image as this model's input; whatever is wrong with it is a :class:`MediaError`."""
        with reading(source):
            if isinstance(self.policy, ImagePreprocessing):
                return self.policy.prepare(source)
            return self.policy.prepare(source, self.filters)

    def as_sources(self, clips: Sequence[object], sample_rate: int | None) -> list[Source]:
        """What a user passes to :meth:`embed`, as :meth:`prepare` takes it."""
        if self.media == "sounds":
            return list(as_sources(clips, sample_rate))
        if sample_rate is not None:
            raise EncoderError(f"{self.name} takes images, which have no sample rate")
        return list(clips)

    @torch.inference_mode()
    def embed_prepared(self, clips: Sequence[Prepared]) -> Float[Tensor, "clip d"]:
        """Unit-length embeddings; a clip of several windows gets the mean direction of its windows."""
        features, longer, windows = as_batch(self, clips)
        embedded = F.normalize(self.encode(features, longer), dim=-1)
        return F.normalize(torch.stack([part.mean(0) for part in embedded.split(windows)]), dim=-1)

    def probe(self) -> Float[Tensor, " d"]:
        """The embedding of a fixed noise: two encoders that do the same agree on it, whatever was done to them since they were opened.

        In bf16, kinds of hardware agree less well on it than in float32 (``reopen.TOLERANCE``).
        """
        return self.embed_prepared([self.prepare(self.policy.noise())])[0].to("cpu", torch.float32)

    def embed_outcomes(
        self,
        sources: Sequence[Source],
        batch_size: int = 16,
        workers: int | None = None,
        advance: Callable[[int], object] | None = None,
    ) -> list[Tensor | MediaError]:
        """One unit-length embedding per source, or the error that source raised. ``advance(n)`` is told of progress."""
        outcomes: dict[int, Tensor | MediaError] = {}
        with progress(f"{self.name}: clips", len(sources), advance) as advance:
            for batch in batches(sources, self.prepare, batch_size, workers):
                outcomes |= batch.errors
                if batch.clips:
                    outcomes |= dict(zip(batch.rows, self.embed_prepared(batch.clips), strict=True))
                advance(len(batch))
        return [outcomes[row] for row in range(len(sources))]

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

    def save(self, folder: str | Path) -> Path:
        """Write the model as a checkpoint of the layout it came from, into an empty or new folder; returns what can be opened.

        The folder is there whole or not at all.
        """
        folder = own_folder(Path(folder))
        if folder.exists() and any(folder.iterdir()):
            raise EncoderError(f"{folder} is not empty; choose another folder for the checkpoint")
        for name, value in self.module.named_parameters():
            if not bool(torch.isfinite(value).all()):
                raise EncoderError(f"{self.name} is not saved: {name} holds NaN or infinite weights")
        with drafted_folder(folder) as draft:
            written = self.write(draft)
            inside = written.relative_to(draft)
            if self.card is not None:
                (draft / "README.md").write_text(self.card)
        return folder / inside

    def write(self, folder: Path) -> Path:
        """Fill an empty folder with the checkpoint; returns what can be opened: the folder, or a file in it."""
        raise EncoderError(f"{type(self).__name__} cannot be written")

    def __repr__(self) -> str:
        heads, blocks = len(self.units.where("head")), len(self.units.blocks)
        rounded = "" if self.precision == "float32" else f", products in {self.precision}"
        return f"<{type(self).__name__} {self.name} · {heads} heads, {blocks} blocks, d = {self.dim}, policy {self.policy.hash}{rounded}>"


def _as(kind: type[Kind], module: nn.Module, name: str) -> Kind:
    if not isinstance(module, kind):
        raise EncoderError(f"{name} is a {type(module).__name__} where a {kind.__name__} is expected")
    return module
