"""One shard: a fixed slice of the clips, through the encoder, into one file. Engines differ only in who calls this."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from ..audio import Prepared
from ..data import Clip
from ..models import Encoder
from ..models.batching import as_batch, batches
from ..spectra import Moments
from .capture import GRANULARITIES, SKETCH, Capture
from .integrity import digest_name, stamp
from .store import Store, digest_of, shard_name

DTYPES = {"float32": torch.float32, "float16": torch.float16, "float64": torch.float64}
# Embeddings and what is held are small and feed further arithmetic; they are never narrowed.
NEVER_NARROWED = ("embedding.", "direct.ratio", "direct.scale", "direct.constant")


# A run has at least so many shards where it can: what is lost by a kill is a part of one.
FEWEST_SHARDS, MOST_BATCHES = 8, 8


class ExtractionError(ValueError):
    """An extraction that cannot begin or be resumed; the message says why, and what to do."""


@dataclass(frozen=True)
class Settings:
    """What determines the numbers of a run, apart from model and data. Batches are cut at fixed places, so that a
    clip always meets the same companions: the result does not depend on where a run was interrupted."""

    granularity: tuple[str, ...] = ("head", "moments", "embedding")
    batch_size: int = 16
    dtype: str = "float32"
    token_units: tuple[str, ...] = ()
    batches_per_shard: int = 8
    sketch: int = SKETCH

    def __post_init__(self) -> None:
        unknown = set(self.granularity) - set(GRANULARITIES)
        if unknown:
            raise ExtractionError(f"unknown granularity {', '.join(sorted(unknown))}; one or more of {', '.join(GRANULARITIES)}")
        if self.dtype not in DTYPES:
            raise ExtractionError(f"unknown dtype {self.dtype!r}; one of {', '.join(DTYPES)}")
        # Clip-level moments are taken of pooled head outputs, and an embedding costs nothing more.
        implied = {"embedding", *(("head",) if "moments" in self.granularity else ())}
        object.__setattr__(self, "granularity", tuple(g for g in GRANULARITIES if g in {*self.granularity, *implied}))
        if ("tokens" in self.granularity) != bool(self.token_units):
            raise ExtractionError("granularity `tokens` goes with the heads to look at, such as --units 'S2B1H7 S3B0H1'")
        if self.sketch != SKETCH and "attention" not in self.granularity:
            raise ExtractionError("--sketch is read by the granularity `attention` only")

    def sized(self, clips: int) -> Settings:
        """With shards that suit so many clips: small ones for small sets."""
        batches = -(-clips // (self.batch_size * FEWEST_SHARDS))
        return replace(self, batches_per_shard=max(1, min(MOST_BATCHES, batches)))

    @property
    def shard_size(self) -> int:
        return self.batch_size * self.batches_per_shard

    def record(self) -> dict[str, object]:
        """Without what nothing here reads, so that runs of earlier versions can be continued."""
        return {name: value for name, value in asdict(self).items() if name != "sketch" or "attention" in self.granularity}


class ShardWriter:
    """Runs and writes shards with one encoder."""

    def __init__(self, encoder: Encoder, settings: Settings, store: Store, workers: int | None = None) -> None:
        if "direct" in settings.granularity and encoder.several_windows:
            raise ExtractionError("`direct` shares are exact for one window per clip; use --crop start or centre")
        units = [encoder.units[encoder.units.index(label)] for label in settings.token_units]
        self.encoder, self.settings, self.store, self.workers = encoder, settings, store, workers
        self.capture = Capture(encoder, settings.granularity, units, settings.sketch)

    def write(self, number: int, clips: Sequence[Clip], advance: Callable[[int], object] | None = None) -> None:
        """Extract ``clips`` and write them as shard ``number``."""
        fates: list[dict[str, Any]] = [{"id": clip.id, "error": "", "stamp": stamp(clip)} for clip in clips]
        arrays: dict[str, list[Tensor]] = {}
        moments: dict[str, list[Moments]] = {"tokens": [], "clips": []}
        for batch in batches([c.source for c in clips], self.encoder.prepare, self.settings.batch_size, self.workers):
            for row, error in batch.errors.items():
                fates[row]["error"] = str(error)
            if batch.clips:
                self._run(batch.clips, arrays, moments)
            if advance is not None:
                advance(len(batch))
        tensors = {key: torch.cat(parts) for key, parts in arrays.items()}
        for level, parts in moments.items():
            if parts:
                tensors |= sum(parts[1:], start=parts[0]).tensors(f"moments.{level}")
        header = {"clips": json.dumps(fates)}
        with self.store.writing(shard_name(number)) as draft:
            save_file({k: v.contiguous() for k, v in tensors.items()}, draft, metadata=header)
            self.store.write_text(digest_name(shard_name(number)), digest_of(draft))

    def _run(self, batch: list[Prepared], arrays: dict[str, list[Tensor]], moments: dict[str, list[Moments]]) -> None:
        features, longer, windows = as_batch(self.encoder, batch)
        result = self.capture.run(features, longer)
        narrow = DTYPES[self.settings.dtype]
        for key, value in result.arrays.items():
            per_clip = value if sum(windows) == len(batch) else torch.stack([part.mean(0) for part in value.split(windows)])
            kind = per_clip.dtype if key.startswith(NEVER_NARROWED) else narrow
            arrays.setdefault(key, []).append(per_clip.to("cpu", kind))
            if key == "head" and "moments" in self.settings.granularity:
                moments["clips"].append(Moments.of(per_clip))
        if result.moments is not None:
            moments["tokens"].append(result.moments)
