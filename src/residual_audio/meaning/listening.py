"""Clips that a question is asked against: run once, with every unit's exact share of each embedding, for many texts afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from ..adaptation.streams import Rows, Streams, cache_streams
from ..data import Dataset, load_dataset
from ..decomposition.joint import Held
from ..evaluation.folds import with_folds
from ..models import Encoder
from ..models.pathways import Pathways
from ..models.readings import DIRECT, direct_shares
from ..models.recording import Recording, recorded
from ..progress import progress
from ..units import Unit
from .dictionary import MeaningError

PER_CLASS = 4  # of the synthetic classes, where no data are given
NOTES = 100  # of the notes that come with the package, for encoders other than `tiny`
AT_ONCE = 16


@dataclass(frozen=True)
class Listening:
    """An encoder and some clips that it has heard.

    Invariant: ``shares.sum(1) + constant`` is ``embeddings``, at unit length. ``held`` and ``weights`` (of each stage, the mean ω of each
    position of a merge group) are what the norms and the projection did; ``outputs``: of each head and MLP, the mean over tokens of what it
    gives, before a head's projection. ``fit`` and ``test`` are disjoint rows, no group in both: what
    is chosen is chosen on the first and measured on the second.
    """

    encoder: Encoder
    dataset: Dataset
    inputs: Streams
    embeddings: Float[Tensor, "clip d"]
    shares: Float[Tensor, "clip unit d"]
    constant: Float[Tensor, "clip d"]
    held: Held | None
    weights: tuple[Float[Tensor, "clip _"], ...]
    outputs: dict[Unit, Float[Tensor, "clip _"]]
    fit: Rows
    test: Rows
    errors: dict[str, str]

    @property
    def mean(self) -> Float[Tensor, " d"]:
        """The mean embedding of all clips: what every sound has in common, and where sounds lie apart from texts."""
        return self.embeddings.mean(0)


def default_data(encoder: Encoder) -> Dataset:
    """Sounds that need no file of yours: what `tiny` was trained on in new takes, or the notes that come with the package."""
    return load_dataset("synthetic", per_class=PER_CLASS) if encoder.name == "tiny" else load_dataset("notes").limited(NOTES)


def halves(dataset: Dataset) -> tuple[Rows, Rows]:
    """Every other fold; folds keep groups together."""
    folds = np.array([c.fold for c in dataset.clips])
    names = np.unique(folds)
    if len(names) < 2:
        raise MeaningError(f"{dataset.name}: {len(dataset)} clips make a single fold, and two are needed; give more clips (--data)")
    return np.flatnonzero(np.isin(folds, names[::2])), np.flatnonzero(np.isin(folds, names[1::2]))


@torch.no_grad()
def listen(
    encoder: Encoder,
    data: Dataset | str | None = None,
    *,
    seed: int = 0,
    workers: int | None = None,
    advance: Callable[[int], object] | None = None,
) -> Listening:
    """Decode and run every clip once. The slow step: do it once per encoder and data, and pass the result to ``steer`` and ``explain``."""
    dataset = default_data(encoder) if data is None else load_dataset(data) if isinstance(data, str) else data
    with progress(f"{encoder.name} on {dataset.name}", 2 * len(dataset), advance) as told:
        inputs = cache_streams(encoder, [c.source for c in dataset.clips], None, workers=workers, advance=told)
        errors = {dataset.clips[i].id: message for i, message in inputs.errors.items()}
        readable = with_folds(dataset.without(errors), "official", seed)
        if len(readable) < 4:
            first = next(iter(errors.values()), "the dataset is empty")
            raise MeaningError(f"{dataset.name}: {len(readable)} readable clips are too few to compare with; at least 4 ({first})")
        ways, parts = Pathways(encoder), []
        for start in range(0, len(inputs), AT_ONCE):
            rows = np.arange(start, min(start + AT_ONCE, len(inputs)))
            parts.append(shares_of(encoder, ways, inputs.batch(rows), torch.from_numpy(inputs.longer[rows]).to(encoder.device)))
            told(len(rows))
    embeddings, shares, constant = (torch.cat([p[i] for p in parts]) for i in range(3))
    helds = [p.held for p in parts if p.held is not None]
    held = Held(torch.cat([h.ratio for h in helds]), torch.cat([h.scale for h in helds])) if helds else None
    weights = tuple(torch.cat(stage) for stage in zip(*(p.weights for p in parts), strict=True))
    outputs = {unit: torch.cat([p.outputs[unit] for p in parts]) for unit in parts[0].outputs}
    fit, test = halves(readable)
    return Listening(encoder, readable, inputs, embeddings, shares, constant, held, weights, outputs, fit, test, errors)


class Batch(NamedTuple):
    """What one batch gives, as in :class:`Listening`; all on the CPU."""

    embeddings: Float[Tensor, "clip d"]
    shares: Float[Tensor, "clip unit d"]
    constant: Float[Tensor, "clip d"]
    held: Held | None
    weights: list[Float[Tensor, "clip _"]]
    outputs: dict[Unit, Float[Tensor, "clip _"]]


def shares_of(encoder: Encoder, ways: Pathways, features: Tensor, longer: Tensor) -> Batch:
    """Run one batch; embeddings, shares and constant at the embedding's unit length."""
    recording = recorded(encoder, features.to(encoder.dtype), longer, DIRECT)
    direct = direct_shares(recording, ways)
    units, constant = direct.joint(ways.joint)
    length = recording.embedding.norm(dim=-1)
    held = None if direct.held is None else Held(direct.held.ratio.cpu(), direct.held.scale.cpu())
    weights = [w.mean(1).float().cpu() for w in ways.weights(recording)]
    return Batch(
        F.normalize(recording.embedding, dim=-1).float().cpu(),
        (units / length[:, None, None]).float().cpu(),
        (constant / length[:, None]).float().cpu(),
        held,
        weights,
        mean_outputs(encoder, recording),
    )


def mean_outputs(encoder: Encoder, recording: Recording) -> dict[Unit, Float[Tensor, "clip _"]]:
    """Of every head and MLP."""
    found: dict[Unit, Tensor] = {}
    for site in encoder.sites:
        heads = recording.heads[site.key].mean(1).unflatten(-1, (site.heads, -1)).float().cpu()
        found |= {unit: heads[:, unit.head] for unit in encoder.units.where("head", *site.key)}
        found[Unit(*site.key, "mlp")] = recording.mlps[site.key].mean(1).float().cpu()
    return found


def only_fit(listening: Listening) -> Listening:
    """The same with the clips of ``fit`` alone."""
    rows, held = torch.from_numpy(listening.fit), listening.held
    return replace(
        listening,
        embeddings=listening.embeddings[rows],
        shares=listening.shares[rows],
        constant=listening.constant[rows],
        held=None if held is None else Held(held.ratio[rows], held.scale[rows]),
        weights=tuple(w[rows] for w in listening.weights),
        outputs={unit: x[rows] for unit, x in listening.outputs.items()},
    )
