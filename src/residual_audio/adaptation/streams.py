"""What enters the first adapted block, computed once for every clip: training repeats only what comes after it."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..media import MediaError
from ..models import BlockSite, Encoder
from ..models.batching import as_batch, batches
from ..models.encoder import Source
from ..models.recording import Block, Look, Reach, record
from ..spectra import Basis, Moments, principal_axes
from .select import REACH, Place

# Streams above this size go to a file in the temporary folder instead of memory.
IN_MEMORY = 4 * 2**30
Rows = Int[np.ndarray, " _"]


class _Reached(Exception):
    """Ends a forward pass once the stream that was waited for has been seen."""


@dataclass(frozen=True)
class Streams:
    """The stream that enters block number ``block``, of every readable clip: ``values [clip, token, width]``, in memory or on disk.

    Without a block, the model's inputs: ``values [clip, channel, frame, mel]``, for what trains the whole encoder.
    """

    encoder: Encoder
    block: int | None
    values: Float[np.ndarray, "clip ..."]
    longer: Bool[np.ndarray, " clip"]
    readable: Rows
    errors: dict[int, str]

    def __len__(self) -> int:
        return len(self.values)

    def batch(self, rows: Rows) -> Float[Tensor, "row ..."]:
        return torch.from_numpy(np.ascontiguousarray(self.values[rows])).to(self.encoder.device)

    def run(self, rows: Rows, encoder: Encoder | None = None) -> Float[Tensor, "row d"]:
        """From here to the embedding, through the encoder as it is now (also attached), or a copy of it."""
        encoder = self.encoder if encoder is None else encoder
        if self.block is None:
            return encoder.encode(self.batch(rows), torch.from_numpy(self.longer[rows]).to(encoder.device))
        return encoder.resume(self.batch(rows), self.block)

    @torch.no_grad()
    def embed(self, rows: Rows, size: int = 64, encoder: Encoder | None = None) -> Float[Tensor, "row d"]:
        """Without a gradient, a bounded number of clips at a time."""
        return torch.cat([self.run(rows[start : start + size], encoder) for start in range(0, len(rows), size)])


def first_block(encoder: Encoder, places: Sequence[Place]) -> int:
    """The number of the first block that any place touches; the last block for the final embedding alone."""
    number = {(s.stage, s.block): i for i, s in enumerate(encoder.sites)}
    return min((number[b] for p in places for b in p.blocks), default=len(encoder.sites) - 1)


def entering(encoder: Encoder, features: Tensor, longer: Tensor, block: int) -> Float[Tensor, "clip token width"]:
    """Run the encoder up to a block and stop there."""
    kept: list[Tensor] = []

    def see(site: BlockSite, x: Tensor) -> None:
        kept.append(x)
        raise _Reached

    with torch.no_grad():
        try:
            with record(encoder, entry=see, sites=(encoder.sites[block],)):
                encoder.encode(features, longer)
        except _Reached:
            pass
    return kept[0]


def room(shape: tuple[int, ...], limit: int) -> Float[np.ndarray, "clip ..."]:
    """In memory, or above ``limit`` bytes in a temporary file."""
    if 4 * math.prod(shape) <= limit:
        return np.empty(shape, dtype=np.float32)
    # The file has no name, so that it is gone with the process, however it ends.
    file = tempfile.TemporaryFile(prefix="residual-audio-", dir=Path(tempfile.gettempdir()))  # noqa: SIM115
    return np.memmap(file, dtype=np.float32, mode="w+", shape=shape)


def cache_streams(
    encoder: Encoder,
    sources: Sequence[Source],
    block: int | None,
    batch_size: int = 16,
    workers: int | None = None,
    limit: int = IN_MEMORY,
    advance: Callable[[int], object] | None = None,
) -> Streams:
    """Decode every clip and run it up to ``block``, once. More than ``limit`` bytes are kept in a temporary file."""
    values: np.ndarray | None = None
    longer = np.zeros(len(sources), dtype=bool)
    errors: dict[int, str] = {}
    readable: list[int] = []
    for batch in batches(sources, encoder.prepare, batch_size, workers):
        errors |= {row: str(error) for row, error in batch.errors.items()}
        if batch.clips:
            features, long, _ = as_batch(encoder, batch.clips)
            if len(features) != len(batch.clips):
                raise MediaError("adaptation takes one window per clip; use --crop start or centre")
            streams = features if block is None else entering(encoder, features, long, block)
            values = room((len(sources), *streams.shape[1:]), limit) if values is None else values
            rows = slice(len(readable), len(readable) + len(batch.clips))
            values[rows], longer[rows] = streams.float().cpu().numpy(), long.cpu().numpy()
            readable += batch.rows
        if advance is not None:
            advance(len(batch))
    kept = np.empty((0, 0), dtype=np.float32) if values is None else values[: len(readable)]
    return Streams(encoder, block, kept, longer[: len(readable)], np.array(readable, dtype=np.int64), errors)


def advanced(inputs: Streams, block: int, size: int = 16, limit: int = IN_MEMORY) -> Streams:
    """Run cached inputs up to a block."""
    values: np.ndarray | None = None
    for start in range(0, len(inputs), size):
        rows = np.arange(start, min(start + size, len(inputs)))
        longer = torch.from_numpy(inputs.longer[rows]).to(inputs.encoder.device)
        streams = entering(inputs.encoder, inputs.batch(rows), longer, block).float().cpu().numpy()
        values = room((len(inputs), *streams.shape[1:]), limit) if values is None else values
        values[rows] = streams
    return replace(inputs, block=block, values=inputs.values if values is None else values)


@torch.no_grad()
def place_moments(streams: Streams, rows: Rows, places: Sequence[Place], level: Literal["token", "clip"], size: int = 32) -> list[Moments]:
    """Moments of what every place reweights, over the clips ``rows``: of all tokens, or of each clip's mean."""
    encoder = streams.encoder
    totals: list[Moments | None] = [None] * len(places)
    wanted: dict[str, dict[Block, list[int]]] = {"heads": {}, "write": {}, "mlp": {}}
    for i, place in enumerate(places):
        for pair in place.blocks:
            wanted[REACH[place.kind]].setdefault(pair, []).append(i)
    clips = 0

    def add(index: int, x: Float[Tensor, "row unit d"]) -> None:
        before, more = totals[index], Moments.of(x)
        totals[index] = more if before is None else before + more

    def see(reach: str) -> Reach | None:
        def act(site: BlockSite, x: Tensor) -> None:
            for index in wanted[reach].get(site.key, []):
                place = places[index]
                seen = x.reshape(-1, x.shape[-1]) if level == "token" else x.reshape(clips, -1, x.shape[-1]).mean(1)
                add(index, seen.unflatten(-1, (site.heads, -1))[:, list(place.heads)] if place.kind == "heads" else seen[:, None])

        return act if wanted[reach] else None

    sites = tuple(s for s in encoder.sites[streams.block or 0 :] if any(s.key in pairs for pairs in wanted.values()))
    final = [i for i, p in enumerate(places) if p.kind == "embedding"]
    pooled: list[Tensor] = []
    inputs: dict[str, Look] = {}
    if final and encoder.readout.changes_pooled and encoder.readout.pooled_at is not None:
        inputs[encoder.readout.pooled_at] = pooled.append
    for start in range(0, len(rows), size):
        clips = len(rows[start : start + size])
        with record(encoder, sites=sites, inputs=inputs, silent_ok=True, heads=see("heads"), write=see("write"), mlp=see("mlp")):
            embedding = streams.run(rows[start : start + size])
        for index in final:
            add(index, (pooled.pop() if inputs else embedding)[:, None])
    return [t for t in totals if t is not None]


def axes_for(encoder: Encoder, moments: Moments) -> Basis:
    """Principal axes in the encoder's precision."""
    basis = principal_axes(moments)
    axes, variance, mean = (x.to(encoder.device, encoder.dtype) for x in (basis.axes, basis.variance, basis.mean))
    return Basis(axes, variance, mean)


def place_bases(streams: Streams, rows: Rows, places: Sequence[Place], level: Literal["token", "clip"]) -> list[Basis]:
    """Principal axes of what every place reweights, over the clips ``rows``."""
    return [axes_for(streams.encoder, m) for m in place_moments(streams, rows, places, level)]
