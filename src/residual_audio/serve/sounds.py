"""A sound that somebody brought: its scores, every unit's exact share of one, where it is written, and the clips that are like it."""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from ..adaptation.attach import attached
from ..adaptation.gain import ResiDual
from ..audio import Waveform
from ..meaning.tokens import map_of
from ..models.batching import as_batch
from ..models.encoder import Source
from ..models.readings import DIRECT, direct_shares
from ..models.recording import Recording, recorded
from ..report.page.audio import RATE, SECONDS, encoded, spectrogram
from ..report.page.clips import thumbnail
from ..report.page.pack import base64_of, digits, quantised
from ..units import WRITERS, SelectionError
from .board import scored
from .entry import Entry
from .limits import KEPT_BYTES, KEPT_SOUNDS
from .problems import Problem

NEAREST = 6
CELLS = (16, 64)
TRACED = {"heads", "mlps"}  # kinds of places whose changes a recording of the units sees


@dataclass(frozen=True)
class Kept:
    """An upload: ``values`` are samples at the model's rate, or pixels; ``shown`` what the page shows of it."""

    entry: str
    values: np.ndarray
    rate: int
    shown: dict[str, Any]

    @property
    def source(self) -> Source:
        return Waveform(self.values, self.rate) if self.values.ndim == 1 else self.values

    @property
    def bytes(self) -> int:
        """In memory, with what is shown of it."""
        return self.values.nbytes + sum(len(part) for part in self.shown.values() if isinstance(part, str))

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.values.tobytes()).hexdigest()[:32]


class Sounds:
    """Uploads by a name that nobody guesses, in bounded memory; the oldest go first."""

    def __init__(self, most: int = KEPT_BYTES) -> None:
        self.most, self.kept, self.lock, self.bytes = most, OrderedDict[str, Kept](), Lock(), 0

    def add(self, entry: Entry, values: np.ndarray, rate: int) -> dict[str, Any]:
        name = secrets.token_urlsafe(12)
        kept = Kept(entry.id, values, rate, {"sound": name, **shown(values, rate)})
        with self.lock:
            self.kept[name] = kept
            self.bytes += kept.bytes
            while (self.bytes > self.most or len(self.kept) > KEPT_SOUNDS) and len(self.kept) > 1:
                self.bytes -= self.kept.popitem(last=False)[1].bytes
        return kept.shown

    def get(self, entry: Entry, name: str) -> Kept:
        with self.lock:
            kept = self.kept.get(name)
            if kept is None or kept.entry != entry.id:
                raise Problem(404, "this sound is not here any more; upload it again")
            self.kept.move_to_end(name)
            return kept

    def source(self, entry: Entry, name: str) -> Source:
        """An upload, or ``row-17``: a clip of the run."""
        if name.startswith("row-") and name[4:].isdecimal() and len(name) < 14:
            return entry.clip(int(name[4:])).source
        return self.get(entry, name).source


def shown(values: np.ndarray, rate: int) -> dict[str, Any]:
    """As the page shows clips: spectrogram and excerpt, or a thumbnail."""
    if values.ndim == 3:
        return {"image": thumbnail(values)}
    from ..audio import read

    samples = read(Waveform(values, rate), RATE, seconds=SECONDS)
    return {"seconds": round(len(values) / rate, 2), "spectrogram": base64_of(spectrogram(samples)), "audio": encoded(samples)}


@torch.inference_mode()
def embedded(entry: Entry, source: Source, residual: ResiDual | None) -> Float[Tensor, "1 d"]:
    prepared = entry.encoder.prepare(source)
    with ExitStack() as stack:
        if residual is not None:
            stack.enter_context(attached(entry.encoder, residual.to(entry.encoder.device, entry.encoder.dtype)))
        return entry.encoder.embed_prepared([prepared]).float().cpu()


def scores(entry: Entry, source: Source, texts: list[str], residual: ResiDual | None) -> dict[str, Any]:
    """Of the classes and of texts, and the clips of the run that are nearest, of one state of the network."""
    unit = embedded(entry, source, residual)
    asked = entry.asked
    classes = scored(unit, asked.classes, asked.offset)[0] if asked is not None else torch.zeros(0)
    near = (entry.embeddings @ unit[0]).topk(min(NEAREST, len(entry.embeddings))) if len(entry.embeddings) else None
    place = {row: i for i, row in enumerate(entry.page_rows)}
    rows = [] if near is None else list(zip(near.indices.tolist(), near.values.tolist(), strict=True))
    return {
        "classes": digits(classes, 6),
        "texts": digits((unit @ entry.texts(texts).T)[0], 6),
        "nearest": [
            {"row": row, "clip": place.get(row, -1), "id": entry.ids[row], "class": int(entry.targets[row]), "cosine": digits([c])[0]}
            for row, c in rows
        ],
    }


@torch.inference_mode()
def traced(entry: Entry, source: Source, residual: ResiDual | None) -> Recording:
    """One pass that keeps what shares and maps need."""
    prepared = entry.encoder.prepare(source)
    if len(prepared.features) != 1:
        raise Problem(422, "shares and maps need a sound in one window; serve a model without --crop windows")
    if residual is not None and (other := {one.place.kind for one in residual.sets} - TRACED):
        raise Problem(422, f"the adapter changes {', '.join(sorted(other))}, where shares are not followed; fold it and serve the result")
    features, longer, _ = as_batch(entry.encoder, [prepared])
    with ExitStack() as stack:
        if residual is not None:
            stack.enter_context(attached(entry.encoder, residual.to(entry.encoder.device, entry.encoder.dtype)))
        return recorded(entry.encoder, features, longer, DIRECT)


@torch.inference_mode()
def shares(entry: Entry, source: Source, towards: tuple[Tensor, float], residual: ResiDual | None) -> dict[str, Any]:
    """Every unit's share of one score; they and the constant sum to it exactly."""
    recording, (direction, offset) = traced(entry, source, residual), towards
    units, constant = direct_shares(recording, entry.ways).joint(entry.ways.joint)
    length = recording.embedding[0].norm()
    t = direction.to(units)
    score = float(F.normalize(recording.embedding, dim=-1)[0] @ t) - offset
    return {
        "score": score,
        "shares": digits((units[0] @ t / length).float().cpu(), 7),
        "constant": float(constant[0] @ t / length) - offset,
    }


@torch.inference_mode()
def written(entry: Entry, source: Source, towards: tuple[Tensor, float], units: str, residual: ResiDual | None) -> dict[str, Any]:
    """Where in time and frequency units write towards a text; all units' maps and the constant's sum to the cosine."""
    if entry.media != "sound":
        raise Problem(422, "images are read at a class token: there is no map of them")
    try:
        chosen = () if units == "all" else entry.encoder.units.select(units, only=WRITERS)
    except SelectionError as error:
        raise Problem(422, str(error)) from error
    recording = traced(entry, source, residual)
    found = map_of(recording, entry.ways, towards[0])
    plane = found.of(*chosen).float().cpu()
    shape = min(plane.shape[0], CELLS[0]), min(plane.shape[1], CELLS[1])
    cells = F.adaptive_avg_pool2d(plane[None], shape)[0] * (plane.numel() / (shape[0] * shape[1]))
    policy = entry.encoder.policy
    return {
        "map": quantised(cells.numpy(), (0, 1)),
        "sum": float(plane.double().sum()),
        "score": found.score - towards[1],
        "seconds": getattr(policy, "seconds", None),
    }
