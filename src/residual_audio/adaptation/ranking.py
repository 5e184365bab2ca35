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
from .gain import ResiDual, gain_set
from .learner import GainLearner
from .objective import CentroidBank
from .select import Place, choose_places
from .shares import direct_shares
from .streams import place_bases
from .task import FoldTask, Recipe

# Rankings that run the model for every head, or store every head's share, look at so many training clips, spread over the classes.
LOOKED_AT = {"ablation": 64, "text": 256}


def how_many(recipe: Recipe, heads: int) -> int:
    """Of so many heads, those that a ranking keeps."""
    return min(heads, recipe.top) if recipe.top is not None else min(20, max(1, heads // 2))


def settled(recipe: Recipe, units: UnitTable) -> Recipe:
    """The same recipe with the number of kept heads spelled out, as it is recorded."""
    heads = sum(len(p.heads) for p in choose_places(units, recipe.units) if p.form == "heads")
    return replace(recipe, top=how_many(recipe, heads)) if recipe.top is None and heads else recipe


def head_places(task: FoldTask) -> list[Place]:
    """The heads of the selection."""
    places = [p for p in choose_places(task.encoder.units, task.recipe.units) if p.form == "heads"]
    if not places:
        raise SelectionError(f"heads can be ranked, and {task.recipe.units!r} has none; choose some, such as 'S2 S3 heads'")
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
        mine = np.flatnonzero(task.targets[train].numpy() == c)
        turn[mine] = np.arange(len(mine))
    return np.sort(train[np.argsort(turn, kind="stable")[:count]])


def by_fisher(task: FoldTask, places: list[Place]) -> Float[Tensor, " head"]:
    """Between-class over within-class scatter of the pooled head outputs."""
    train = task.parts.train
    return fisher_ratio(pooled_heads(task, places, train), task.targets[train], task.classes).nan_to_num(0.0)


def by_ablation(task: FoldTask, places: list[Place]) -> Float[Tensor, " head"]:
    """How much the loss rises when a head is replaced by its mean."""
    rows = some_training_clips(task, LOOKED_AT["ablation"])
    bases = place_bases(task.streams, task.parts.basis, places, "token")
    learner = GainLearner(ResiDual(tuple(gain_set(p, b, tied=True) for p, b in zip(places, bases, strict=True))), task.streams)
    objective, targets, where = task.objective(), task.targets[rows], torch.arange(len(rows))

    def loss() -> float:
        found = learner.embed(rows).cpu()
        bank = CentroidBank(found, targets, task.classes) if objective.centroids else None
        return float(objective.loss(found, where, targets, bank))

    before, rises = loss(), []
    for gains in learner.parameters:
        for head in range(len(gains)):
            with torch.no_grad():
                gains[head] = 0
                rises.append(loss() - before)
                gains[head] = 1
    return torch.tensor(rises)


@torch.no_grad()
def by_text(task: FoldTask, places: list[Place]) -> Float[Tensor, " head"]:
    """How far a head's direct share, about its mean, moves a clip towards its class' text and away from the mean text."""
    if task.directions is None:
        raise EvaluationError(f"{task.encoder.name} has no text side; use --by fisher")
    encoder, rows = task.encoder, some_training_clips(task, LOOKED_AT["text"])
    labels = [u.label for u in encoder.units]
    mine = [labels.index(label) for p in places for label in p.labels]
    shares = direct_shares(task.setting.whole, rows, mine)
    towards = task.directions - task.directions.mean(0)
    return torch.einsum("chd,cd->h", shares - shares.mean(0), towards[task.targets[rows]]) / len(rows)


def head_scores(task: FoldTask, by: str, places: list[Place]) -> Float[Tensor, " head"]:
    return {"fisher": by_fisher, "ablation": by_ablation, "text": by_text}[by](task, places)


def top_places(task: FoldTask, by: str) -> list[Place]:
    """The selection's best heads by a ranking, and whatever in it is not a head."""
    places = head_places(task)
    scores = head_scores(task, by, places)
    kept = set(scores.topk(how_many(task.recipe, len(scores))).indices.tolist())
    found, number = [], 0
    for place in places:
        heads = tuple(h for i, h in enumerate(place.heads) if number + i in kept)
        number += len(place.heads)
        if heads:
            found.append(Place("heads", place.blocks, heads))
    return found + [p for p in choose_places(task.encoder.units, task.recipe.units) if p.form != "heads"]
