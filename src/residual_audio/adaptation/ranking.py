"""Which heads of a selection matter for a task, judged on its training part alone: the first are the ones to adapt or to keep."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ..analysis.discriminability import fisher_ratio
from ..evaluation import EvaluationError
from ..models import BlockSite
from ..models.recording import record
from ..units import SelectionError, UnitTable
from .gain import ResiDual, Shape, gain_set
from .learner import GainLearner
from .objective import CentroidBank
from .options import Ranked
from .select import Place, choose_places
from .shares import direct_shares
from .streams import place_bases
from .task import FoldTask

# Rankings that run the model for every head, or store every head's share, look at so many training clips, spread over the classes.
LOOKED_AT = {"ablation": 64, "text": 256}


def how_many(top: int | None, heads: int) -> int:
    """Of so many heads, those that a ranking keeps."""
    return min(heads, top) if top is not None else min(20, max(1, heads // 2))


def with_number(options: Ranked, units: UnitTable) -> Ranked:
    """The same with the number of kept heads spelled out, as it is recorded."""
    heads = sum(len(p.heads) for p in choose_places(units, options.units) if p.kind == "heads")
    return replace(options, top=how_many(options.top, heads)) if options.top is None and heads else options


def head_places(units: UnitTable, selection: str) -> list[Place]:
    """The heads of a selection."""
    places = [p for p in choose_places(units, selection) if p.kind == "heads"]
    if not places:
        raise SelectionError(f"heads can be ranked, and {selection!r} has none; choose some, such as 'S2 S3 heads'")
    return places


@torch.no_grad()
def pooled_heads(task: FoldTask, places: list[Place], rows: np.ndarray, size: int = 64) -> Float[Tensor, "row head d"]:
    """Pooled outputs of the places' heads, in their order."""
    encoder = task.encoder
    order = {p.blocks[0]: list(p.heads) for p in places}
    parts: list[Tensor] = []
    for start in range(0, len(rows), size):
        batch = rows[start : start + size]
        seen: list[Tensor] = []

        def see(site: BlockSite, z: Tensor, clips: int = len(batch), seen: list[Tensor] = seen) -> None:
            pooled = z.reshape(clips, -1, z.shape[-1]).mean(1).unflatten(-1, (site.heads, -1))
            seen.append(pooled[:, order[site.stage, site.block]])

        with record(encoder, heads=see, sites=tuple(s for s in encoder.sites if (s.stage, s.block) in order)):
            task.streams.run(batch)
        parts.append(torch.cat(seen, 1).cpu())
    return torch.cat(parts)


def some_training_clips(task: FoldTask, count: int) -> np.ndarray:
    """At most ``count``, class by class in turn."""
    train = task.parts.train
    turn = np.zeros(len(train), dtype=np.int64)
    for c in range(task.classes):
        of_class = np.flatnonzero(task.targets[train].numpy() == c)
        turn[of_class] = np.arange(len(of_class))
    return np.sort(train[np.argsort(turn, kind="stable")[:count]])


def by_fisher(task: FoldTask, places: list[Place], towards: str) -> Float[Tensor, " head"]:
    """Between-class over within-class scatter of the pooled head outputs."""
    train = task.parts.train
    return fisher_ratio(pooled_heads(task, places, train), task.targets[train], task.classes).nan_to_num(0.0)


def by_ablation(task: FoldTask, places: list[Place], towards: str) -> Float[Tensor, " head"]:
    """How much the loss rises when a head is replaced by its mean."""
    rows = some_training_clips(task, LOOKED_AT["ablation"])
    bases = place_bases(task.streams, task.parts.basis, places, "token")
    learner = GainLearner(ResiDual(tuple(gain_set(p, b, Shape("scalar")) for p, b in zip(places, bases, strict=True))), task.streams)
    objective, targets, where = task.objective(towards), task.targets[rows], torch.arange(len(rows))

    def loss() -> float:
        embeddings = learner.embed(rows).cpu()
        bank = CentroidBank(embeddings, targets, task.classes) if objective.centroids else None
        return float(objective.loss(embeddings, where, targets, bank))

    before, rises = loss(), []
    for gains in learner.parameters:
        for head in range(len(gains)):
            with torch.no_grad():
                gains[head] = 0
                rises.append(loss() - before)
                gains[head] = 1
    return torch.tensor(rises)


@torch.no_grad()
def by_text(task: FoldTask, places: list[Place], towards: str) -> Float[Tensor, " head"]:
    """How far a head's direct share, about its mean, moves a clip towards its class' text and away from the mean text."""
    if task.directions is None:
        raise EvaluationError(f"{task.encoder.name} has no text side; use --by fisher")
    encoder, rows = task.encoder, some_training_clips(task, LOOKED_AT["text"])
    labels = [u.label for u in encoder.units]
    numbers = [labels.index(label) for p in places for label in p.labels]
    shares = direct_shares(task.setting.whole, rows, numbers)
    apart = task.directions - task.directions.mean(0)
    return torch.einsum("chd,cd->h", shares - shares.mean(0), apart[task.targets[rows]]) / len(rows)


RANKINGS = {"fisher": by_fisher, "ablation": by_ablation, "text": by_text}


def head_scores(task: FoldTask, by: str, places: list[Place], towards: str = "auto") -> Float[Tensor, " head"]:
    return RANKINGS[by](task, places, towards)


def top_places(task: FoldTask, by: str, selection: str, top: int | None, towards: str = "auto") -> list[Place]:
    """The selection's best heads by a ranking, and whatever in it is not a head."""
    places = head_places(task.encoder.units, selection)
    scores = head_scores(task, by, places, towards)
    kept = set(scores.topk(how_many(top, len(scores))).indices.tolist())
    chosen, number = [], 0
    for place in places:
        heads = tuple(h for i, h in enumerate(place.heads) if number + i in kept)
        number += len(place.heads)
        if heads:
            chosen.append(Place("heads", place.blocks, heads))
    return chosen + [p for p in choose_places(task.encoder.units, selection) if p.kind != "heads"]
