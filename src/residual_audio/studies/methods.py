"""The methods that are compared, each a function from a fold's task to scores of its test clips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from ..adaptation.attach import attached
from ..adaptation.gain import ResiDual, gain_set, random_basis
from ..adaptation.objective import CentroidBank, Objective, centred
from ..adaptation.select import choose_places
from ..adaptation.streams import Streams, place_bases
from ..adaptation.train import Trained, Training, train_gains
from ..analysis.discriminability import fisher_ratio
from ..evaluation.classifiers import centroid_directions
from ..evaluation.probe import fit_probe
from ..evaluation.readout import EvaluationError
from ..extraction.record import record
from ..models import BlockSite
from .parts import Parts


@dataclass(frozen=True)
class Recipe:
    """The choices that methods share; all are recorded."""

    units: str = "heads"
    level: str = "token"
    kept: int | float | None = None
    start: float | None = None
    mean: str = "keep"
    objective: str = "auto"
    scale: float | None = None
    top: int = 20
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        for name, allowed in (
            ("level", ("token", "clip")),
            ("mean", ("keep", "drop")),
            ("objective", ("auto", "prompts", "centroid", "both")),
        ):
            if getattr(self, name) not in allowed:
                raise EvaluationError(f"unknown {name} {getattr(self, name)!r}; one of {', '.join(allowed)}")
        if self.kept is not None and not (self.kept >= 1 if isinstance(self.kept, int) else 0 < self.kept < 1):
            raise EvaluationError(f"kept axes: {self.kept} is neither a number of axes nor a share between 0 and 1")


@dataclass(frozen=True)
class FoldTask:
    """Everything a method may use; ``parts.test`` only to be scored, once."""

    streams: Streams
    embeddings: Float[Tensor, "clip d"]
    targets: Tensor
    classes: int
    directions: Float[Tensor, "class d"] | None
    parts: Parts
    recipe: Recipe
    seed: int

    @property
    def by_text(self) -> bool:
        """Whether the test clips are classified by prompts; else by centroids."""
        return self.recipe.objective in ("prompts", "both") or (self.recipe.objective == "auto" and self.directions is not None)

    def objective(self) -> Objective:
        learned = self.recipe.objective in ("centroid", "both") or not self.by_text
        scale = self.streams.encoder.logit_scale if self.recipe.scale is None else self.recipe.scale
        return Objective(self.directions if self.by_text else None, learned, scale)

    def scores(self, embeddings: Float[Tensor, "clip d"]) -> Float[Tensor, "test class"]:
        """Of the test clips, from the embeddings of all clips: prompts, or centroids of every clip that is not in the test."""
        test, seen = self.parts.test, self.parts.seen
        if self.by_text and self.directions is not None:
            return F.normalize(embeddings[test], dim=-1) @ self.directions.T
        centre = F.normalize(embeddings[seen], dim=-1).mean(0)
        directions = centroid_directions(centred(embeddings[seen], centre), self.targets[seen], self.classes)
        return centred(embeddings[test], centre) @ directions.T


@dataclass(frozen=True)
class FoldResult:
    """Scores of the test clips, how many numbers were trained, and what came out of it."""

    scores: Float[Tensor, "test class"]
    trained: int
    residual: ResiDual | None = None
    history: list[dict[str, float]] = field(default_factory=list)


def plain(task: FoldTask) -> FoldResult:
    """The model as it is: prompts, or centroids where there is no text."""
    return FoldResult(task.scores(task.embeddings), 0)


def probe(task: FoldTask) -> FoldResult:
    """Logistic regression on the embeddings of all clips outside the test."""
    seen = task.parts.seen
    unit = F.normalize(task.embeddings, dim=-1)
    weight, bias, _ = fit_probe(unit[seen], task.targets[seen], task.classes, task.seed)
    return FoldResult(unit[task.parts.test] @ weight.T + bias, weight.numel() + bias.numel())


def _adapted(task: FoldTask, residual: ResiDual) -> Tensor:
    """Embeddings of all clips with the gains at work."""
    with attached(task.streams.encoder, residual.to(task.streams.encoder.device, task.streams.encoder.dtype)):
        return task.streams.embed(np.arange(len(task.streams))).cpu()


def _learn(task: FoldTask, residual: ResiDual, training: Training) -> Trained:
    return train_gains(
        task.streams.encoder, residual, task.streams, task.parts.train, task.parts.stop, task.targets, task.classes, task.objective(),
        replace(training, seed=task.seed),
    )  # fmt: skip


def starting(task: FoldTask, random: bool = False, tied: bool = False) -> ResiDual:
    """Gains before training, on the basis part's principal axes or on random ones."""
    recipe = task.recipe
    places = choose_places(task.streams.encoder.units, recipe.units)
    bases = place_bases(task.streams, task.parts.basis, places, recipe.level)  # type: ignore[arg-type]
    if random:
        bases = [random_basis(b, 1000 * task.seed + i) for i, b in enumerate(bases)]
    sets = tuple(gain_set(p, b, recipe.kept, recipe.start, tied) for p, b in zip(places, bases, strict=True))
    return ResiDual(sets, recipe.mean, {"units": recipe.units, "level": recipe.level, "seed": task.seed})  # type: ignore[arg-type]


def residual(task: FoldTask, random: bool = False, tied: bool = False) -> FoldResult:
    """ResiDual: one gain per principal axis."""
    found = _learn(task, starting(task, random, tied), task.recipe.training)
    return FoldResult(task.scores(_adapted(task, found.residual)), found.residual.trained, found.residual, found.history)


def residual_random(task: FoldTask) -> FoldResult:
    """The control: the same number of gains on random axes."""
    return residual(task, random=True)


def head_scalar(task: FoldTask) -> FoldResult:
    """One gain per unit, for all of its axes alike."""
    return residual(task, tied=True)


@torch.no_grad()
def pooled_units(task: FoldTask, rows: np.ndarray, size: int = 64) -> Float[Tensor, "row head d"]:
    """Pooled outputs of the adapted heads, in the order of the places."""
    encoder = task.streams.encoder
    places = [p for p in choose_places(encoder.units, task.recipe.units) if p.form == "heads"]
    order = {p.blocks[0]: list(p.heads) for p in places}
    parts: list[Tensor] = []
    for _, x in task.streams.batches(rows, size):
        seen: list[Tensor] = []

        def see(site: BlockSite, z: Tensor, clips: int = len(x), seen: list[Tensor] = seen) -> None:
            pooled = z.reshape(clips, -1, z.shape[-1]).mean(1).unflatten(-1, (site.heads, -1))
            seen.append(pooled[:, order[site.stage, site.block]])

        with record(encoder, heads=see, sites=tuple(s for s in encoder.sites if (s.stage, s.block) in order)):
            encoder.resume(x, task.streams.block)
        parts.append(torch.cat(seen, 1).cpu())
    return torch.cat(parts)


def top_heads(task: FoldTask) -> FoldResult:
    """Keep the heads with the best Fisher ratio on the training part; the others are replaced by their mean. Nothing is trained."""
    start = starting(task, tied=True)
    fisher = fisher_ratio(pooled_units(task, task.parts.train), task.targets[task.parts.train], task.classes).nan_to_num(0.0)
    kept = torch.zeros(len(fisher)).scatter(0, fisher.topk(min(task.recipe.top, len(fisher))).indices, 1.0)
    heads = [s for s in start.sets if s.place.form == "heads"]
    gains = kept.split([len(s.gain) for s in heads])
    chosen = replace(start, sets=tuple(heads), mean="keep").with_gains([g[:, None].to(s.gain) for g, s in zip(gains, heads, strict=True)])
    return FoldResult(task.scores(_adapted(task, chosen)), 0, chosen)


def aligner(task: FoldTask) -> FoldResult:
    """A square matrix on the embedding, from the identity, trained and stopped like the gains."""
    how, objective = replace(task.recipe.training, seed=task.seed), task.objective()
    x = F.normalize(task.embeddings, dim=-1)
    matrix = torch.eye(x.shape[1], requires_grad=True)
    optimiser = torch.optim.AdamW([matrix], lr=1e-3, weight_decay=0.0)
    train, stop, rng = task.parts.train, task.parts.stop, np.random.default_rng(how.seed)
    targets = task.targets
    bank = CentroidBank(x[train], targets[train], task.classes) if objective.centroids else None
    best, kept, waited = (-1.0, 0.0), matrix.detach().clone(), 0
    for _ in range(how.epochs):
        order = rng.permutation(len(train))
        for begin in range(0, len(order), how.batch_size):
            places = order[begin : begin + how.batch_size]
            moved, where = x[train[places]] @ matrix.T, torch.from_numpy(places)
            loss = objective.loss(moved, where, targets[train[places]], bank)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            if bank is not None:
                bank.store(moved, where)
        with torch.no_grad():
            scores = objective.scores(x[stop] @ matrix.T, bank)
            now = (float(scores.argmax(1).eq(targets[stop]).float().mean()), -float(F.cross_entropy(scores, targets[stop])))
        if now > best:
            best, kept, waited = now, matrix.detach().clone(), 0
        else:
            waited += 1
        if waited >= how.patience:
            break
    return FoldResult(task.scores(x @ kept.T), kept.numel())


METHODS: dict[str, Callable[[FoldTask], FoldResult]] = {
    "plain": plain,
    "probe": probe,
    "residual": residual,
    "residual-random": residual_random,
    "head-scalar": head_scalar,
    "top-heads": top_heads,
    "aligner": aligner,
}
