"""What enters the first adapted block, computed once for every clip: training repeats only what comes after it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..audio import AudioError, AudioSource, prepared_ahead
from ..extraction.record import record
from ..extraction.shard import as_batch
from ..models import BlockSite, Encoder
from ..spectra import Basis, Moments, principal_axes
from .select import Place

# Streams above this size go to a file in the temporary folder instead of memory.
IN_MEMORY = 4 * 2**30
Rows = Int[np.ndarray, " _"]


class _Reached(Exception):
    """Ends a forward pass once the stream that was waited for has been seen."""


@dataclass(frozen=True)
class Streams:
    """The stream that enters block number ``block``, of every readable clip: ``values [clip, token, width]``, in memory or on disk."""

    encoder: Encoder
    block: int
    values: Float[np.ndarray, "clip token width"]
    readable: Rows
    errors: dict[int, str]

    def __len__(self) -> int:
        return len(self.values)

    def batch(self, rows: Rows) -> Float[Tensor, "row token width"]:
        return torch.from_numpy(np.ascontiguousarray(self.values[rows])).to(self.encoder.device)

    def batches(self, rows: Rows, size: int) -> Iterator[tuple[Rows, Tensor]]:
        for start in range(0, len(rows), size):
            yield rows[start : start + size], self.batch(rows[start : start + size])

    @torch.no_grad()
    def embed(self, rows: Rows, size: int = 64) -> Float[Tensor, "row d"]:
        """Embeddings of the model as it is now (also attached)."""
        return torch.cat([self.encoder.resume(x, self.block) for _, x in self.batches(rows, size)])


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


def cache_streams(
    encoder: Encoder,
    sources: Sequence[AudioSource],
    block: int,
    batch_size: int = 16,
    workers: int | None = None,
    limit: int = IN_MEMORY,
    advance: Callable[[int], object] | None = None,
) -> Streams:
    """Decode every clip and run it up to ``block``, once. More than ``limit`` bytes are kept in a temporary file."""
    grid = encoder.stages[encoder.sites[block].stage].grid
    shape = (len(sources), grid[0] * grid[1], encoder.units.d_model[encoder.sites[block].stage])
    size = int(np.prod(shape)) * 4
    values: np.ndarray
    if size > limit:
        # The file has no name, so that it is gone with the process, however it ends.
        file = tempfile.TemporaryFile(prefix="residual-audio-", dir=Path(tempfile.gettempdir()))  # noqa: SIM115
        values = np.memmap(file, dtype=np.float32, mode="w+", shape=shape)
    else:
        values = np.empty(shape, dtype=np.float32)
    errors: dict[int, str] = {}
    readable: list[int] = []
    waiting: list = []
    kept = 0

    def flush() -> None:
        nonlocal kept
        if waiting:
            features, longer, _ = as_batch(encoder, waiting)
            if len(features) != len(waiting):
                raise AudioError("adaptation takes one window a clip; use --crop start or centre")
            values[kept : kept + len(waiting)] = entering(encoder, features, longer, block).float().cpu().numpy()
            kept += len(waiting)
            waiting.clear()

    for row, found in enumerate(prepared_ahead(sources, encoder.prepare, workers, ahead=2 * batch_size)):
        if isinstance(found, AudioError):
            errors[row] = str(found)
        else:
            readable.append(row)
            waiting.append(found)
        if len(waiting) >= batch_size:
            flush()
        if advance is not None:
            advance(1)
    flush()
    return Streams(encoder, block, values[:kept], np.array(readable, dtype=np.int64), errors)


@torch.no_grad()
def place_moments(streams: Streams, rows: Rows, places: Sequence[Place], level: Literal["token", "clip"], size: int = 32) -> list[Moments]:
    """Moments of what every place reweights, over the clips ``rows``: of all tokens, or of each clip's mean."""
    encoder = streams.encoder
    totals: list[Moments | None] = [None] * len(places)
    wanted = {"heads": {}, "write": {}, "mlp": {}}  # type: dict[str, dict[tuple[int, int], list[int]]]
    for i, place in enumerate(places):
        reach = {"heads": "heads", "mlps": "mlp"}.get(place.form, "write")
        for pair in place.blocks:
            wanted[reach].setdefault(pair, []).append(i)
    clips = 0

    def add(index: int, x: Float[Tensor, "row unit d"]) -> None:
        found = Moments.of(x)
        before = totals[index]
        totals[index] = found if before is None else before + found

    def see(reach: str) -> Callable[[BlockSite, Tensor], None]:
        def act(site: BlockSite, x: Tensor) -> None:
            for index in wanted[reach].get((site.stage, site.block), []):
                place = places[index]
                rows_ = x.reshape(-1, x.shape[-1]) if level == "token" else x.reshape(clips, -1, x.shape[-1]).mean(1)
                split = rows_.unflatten(-1, (site.heads, -1))[:, list(place.heads)] if place.form == "heads" else rows_[:, None]
                add(index, split)

        return act

    reaches = {reach: see(reach) for reach, pairs in wanted.items() if pairs}
    sites = tuple(s for s in encoder.sites[streams.block :] if any((s.stage, s.block) in pairs for pairs in wanted.values()))
    final = [i for i, p in enumerate(places) if p.form == "embedding"]
    pooled: list[Tensor] = []
    inputs = {encoder.readout.linear1: pooled.append} if final and encoder.readout.joint == "residual" else {}
    for _, x in streams.batches(rows, size):
        clips = len(x)
        with record(encoder, sites=sites, inputs=inputs, silent_ok=True, **reaches):
            embedding = encoder.resume(x, streams.block)
        for index in final:
            add(index, (pooled.pop() if inputs else embedding)[:, None])
    return [t for t in totals if t is not None]


def place_bases(streams: Streams, rows: Rows, places: Sequence[Place], level: Literal["token", "clip"]) -> list[Basis]:
    """Principal axes of what every place reweights, over the clips ``rows``, in the encoder's precision."""
    put = dict(dtype=streams.encoder.dtype, device=streams.encoder.device)
    bases = [principal_axes(m) for m in place_moments(streams, rows, places, level)]
    return [Basis(b.axes.to(**put), b.variance.to(**put), b.mean.to(**put)) for b in bases]
