"""The methods that are compared, each a function from a fold's task to scores of its test clips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..analysis.discriminability import component_fisher
from ..evaluation import EvaluationError
from ..evaluation.classifiers import fit_probe
from ..extraction.run import Run
from ..spectra import Basis, Moments
from .baselines import finetune_learner, lora_learner
from .direct import ShareBasis, ShareLearner
from .gain import GainSet, ResiDual, gain_set, random_basis
from .learner import GainLearner, Learner, MatrixLearner, SharedLearner
from .presets import PRESETS, fisher_gains
from .ranking import head_places, head_scores, how_many, pooled_heads, top_places
from .select import Place, choose_places
from .streams import axes_for, place_bases
from .task import FoldResult, FoldTask, Recipe, Setting
from .train import best_epoch, train, train_gains

# Methods that need the model's inputs, not only what enters the first adapted block.
WHOLE = {"finetune", "residual-direct", *PRESETS}


def needs_inputs(methods: list[str], recipe: Recipe) -> bool:
    return bool(WHOLE & set(methods)) or recipe.by == "text"


def plain(task: FoldTask) -> FoldResult:
    """The model as it is: prompts, or centroids where there is no text."""
    return FoldResult(task.scores(task.setting.embeddings), 0, embed=lambda setting: setting.embeddings)


def probe(task: FoldTask) -> FoldResult:
    """Logistic regression on the embeddings of all clips outside the test."""
    seen = task.parts.seen
    unit = F.normalize(task.setting.embeddings, dim=-1)
    weight, bias, _ = fit_probe(unit[seen], task.targets[seen], task.classes, task.seed)
    return FoldResult(unit[task.parts.test] @ weight.T + bias, weight.numel() + bias.numel())


def scored(task: FoldTask, embed: Callable[[Setting], Tensor], trained: int, **what: Any) -> FoldResult:
    """Score the test clips by an adapted model."""
    return FoldResult(task.scores(embed(task.setting)), trained, embed, **what)


def gains_at_work(residual: ResiDual, whole: bool = False) -> Callable[[Setting], Tensor]:
    """Embed a setting's clips with the gains attached; ``whole``: from the model's inputs."""
    return lambda setting: GainLearner(residual, setting.whole if whole else setting.streams).embed(setting.rows).cpu()


def transferred_bases(task: FoldTask, places: list[Place]) -> list[Basis]:
    """The principal axes of another extraction's heads, from its moments."""
    run, encoder = Run.open(task.recipe.basis), task.encoder
    if run.info["model"]["revision"] != encoder.revision:
        raise EvaluationError(f"{task.recipe.basis} was extracted from {run.info['model']['name']}, not from {encoder.name}")
    if any(p.form != "heads" for p in places):
        raise EvaluationError(f"a transferred basis is of heads; {task.recipe.units!r} names others")
    found = run.moments({"token": "tokens", "clip": "clips"}[task.recipe.level])
    labels = [u.label for u in encoder.units.where("head")]
    rows = [[labels.index(label) for label in place.labels] for place in places]
    return [axes_for(encoder, Moments(found.count[mine], found.total[mine], found.second[mine])) for mine in rows]


def starting(task: FoldTask, random: bool = False, tied: bool = False) -> ResiDual:
    """Gains before training, on the basis part's principal axes, on another run's, or on random ones."""
    recipe = task.recipe
    places = choose_places(task.encoder.units, recipe.units) if recipe.by is None else top_places(task, recipe.by)
    own = recipe.basis == "own"
    bases = place_bases(task.streams, task.parts.basis, places, recipe.level) if own else transferred_bases(task, places)  # type: ignore[arg-type]
    if random:
        bases = [random_basis(b, 1000 * task.seed + i) for i, b in enumerate(bases)]
    sets = tuple(gain_set(p, b, recipe.kept, recipe.start, tied) for p, b in zip(places, bases, strict=True))
    notes = {"units": recipe.units, "level": recipe.level, "basis": recipe.basis, "seed": task.seed}
    if recipe.by is not None:
        notes["heads"] = f"the best {recipe.top} by {recipe.by}"
    return ResiDual(sets, recipe.mean, notes)  # type: ignore[arg-type]


def residual(task: FoldTask, random: bool = False, tied: bool = False) -> FoldResult:
    """ResiDual: one gain per principal axis."""
    found = train_gains(starting(task, random, tied), task.streams, task.lesson(), replace(task.recipe.training, seed=task.seed))
    return scored(task, gains_at_work(found.residual), found.residual.trained, residual=found.residual, history=found.history)


def top_heads(task: FoldTask) -> FoldResult:
    """Keep the heads that rank best on the training part (Fisher, or ``by``); the others become their mean. Nothing is trained."""
    places = head_places(task)
    scores = head_scores(task, task.recipe.by or "fisher", places)
    kept = torch.zeros(len(scores)).scatter(0, scores.topk(how_many(task.recipe, len(scores))).indices, 1.0)
    bases = place_bases(task.streams, task.parts.basis, places, "token")
    sets = [gain_set(p, b, tied=True) for p, b in zip(places, bases, strict=True)]
    gains = [g[:, None].to(s.gain) for g, s in zip(kept.split([len(s.gain) for s in sets]), sets, strict=True)]
    chosen = ResiDual(tuple(sets), "keep").with_gains(gains)
    return scored(task, gains_at_work(chosen), 0, residual=chosen)


def preset(task: FoldTask, name: str) -> FoldResult:
    """One of the seeds' strategies without training, on the heads of the blocks that it names."""
    chosen = PRESETS[name]
    places = chosen.places(task.encoder.units)
    bases = place_bases(task.setting.whole, task.parts.basis, places, task.recipe.level)  # type: ignore[arg-type]
    sets = tuple(GainSet(p, b.axes, b.mean, b.variance, chosen.gains(b.variance)) for p, b in zip(places, bases, strict=True))
    found = ResiDual(sets, task.recipe.mean, {"preset": f"{name}: {chosen.what}"})  # type: ignore[arg-type]
    return scored(task, gains_at_work(found, whole=True), 0, residual=found)


def fisher_preset(task: FoldTask) -> FoldResult:
    """Closed form: every axis of the chosen heads as loud as its share of class information; one pass, nothing is trained."""
    places, train_rows = head_places(task), task.parts.train
    start = starting(replace(task, recipe=replace(task.recipe, by=None, kept=None, start=None)))
    start = replace(start, sets=tuple(s for s in start.sets if s.place.form == "heads"))
    pooled = pooled_heads(task, places, train_rows).split([len(p.heads) for p in places], 1)
    gains = []
    for found, z in zip(start.sets, pooled, strict=True):
        ratio = component_fisher(z, found.axes.cpu(), task.targets[train_rows], task.classes)
        gains.append(fisher_gains(ratio.to(found.variance), found.variance, task.classes, len(train_rows)))
    chosen = start.with_gains(gains)
    return scored(task, gains_at_work(chosen), 0, residual=chosen)


def learned(task: FoldTask, learner: Learner, rate: float, embed: Callable[[Setting], Tensor]) -> FoldResult:
    """Train what is not gains, in the same way and on the same parts."""
    how = replace(task.recipe.training, seed=task.seed, rate=rate, l1=0.0)
    history, _ = train(learner, task.lesson(), how)
    return scored(task, embed, sum(p.numel() for p in learner.parameters), history=history)


def aligner(task: FoldTask) -> FoldResult:
    """A square matrix on the embedding, from the identity."""
    learner = MatrixLearner(F.normalize(task.setting.embeddings, dim=-1).to(task.encoder.device))
    return learned(task, learner, 1e-3, lambda setting: F.normalize(setting.embeddings, dim=-1) @ learner.matrix.detach().cpu().T)


def on_shares(task: FoldTask, shares: Callable[[Setting], Tensor]) -> FoldResult:
    """Gains on what ``shares`` gives for every clip, learned as in the paper: schedule-free, the rate looked for, at most 30 epochs.

    Seconds are enough, so the parts only choose the rate and the number of epochs; basis and gains then come from all clips outside the
    test, as a probe's weights do.
    """
    recipe, x = task.recipe, shares(task.setting)

    def learner(rows: np.ndarray) -> ShareLearner:
        return ShareLearner(ShareBasis.of(x[rows], recipe.kept, recipe.start), task.setting.embeddings, x, recipe.mean)  # type: ignore[arg-type]

    how = replace(recipe.training, seed=task.seed, optimiser="schedulefree", rate=None, epochs=min(30, recipe.training.epochs), patience=5)
    history, rate = train(learner(task.parts.basis), task.lesson(), how)
    best = int(best_epoch(history)["epoch"])
    final, seen = learner(task.parts.seen), task.parts.seen
    if best:
        train(final, replace(task.lesson(), train=seen, stop=seen[:0]), replace(how, rate=rate, epochs=best))

    def embed(setting: Setting) -> Tensor:
        return ShareLearner(final.basis, setting.embeddings, shares(setting), recipe.mean, final.gain).embed(setting.rows)  # type: ignore[arg-type]

    return scored(task, embed, final.gain.numel(), history=history)


def residual_direct(task: FoldTask) -> FoldResult:
    """The paper's form: gains on the direct shares of the chosen heads and MLPs. The encoder does not run, and nothing folds."""
    places = choose_places(task.encoder.units, task.recipe.units)
    if any(p.form not in ("heads", "mlps") for p in places):
        raise EvaluationError(f"direct shares are of heads and mlps; {task.recipe.units!r} names others")
    labels = [u.label for u in task.encoder.units]
    units = tuple(labels.index(label) for place in places for label in place.labels)
    return on_shares(task, lambda setting: setting.shares(units))


def residual_embedding(task: FoldTask) -> FoldResult:
    """The paper's RD_Y: gains on the principal axes of the embedding itself."""
    return on_shares(task, lambda setting: setting.embeddings[:, None])


def lora(task: FoldTask) -> FoldResult:
    """Low-rank changes of queries and values in the blocks that hold the chosen units."""
    blocks = {b for p in choose_places(task.encoder.units, task.recipe.units) for b in p.blocks}
    learner = lora_learner(task.streams, blocks, task.recipe.lora_rank, task.seed)
    return learned(task, learner, task.recipe.lora_rate, lambda s: SharedLearner(learner.encoder, [], s.streams).embed(s.rows).cpu())


def finetune(task: FoldTask) -> FoldResult:
    """Every weight of the audio side."""
    learner = finetune_learner(task.setting.whole)
    return learned(task, learner, task.recipe.finetune_rate, lambda s: SharedLearner(learner.encoder, [], s.whole).embed(s.rows).cpu())


METHODS: dict[str, Callable[[FoldTask], FoldResult]] = {
    "plain": plain,
    "probe": probe,
    "residual": residual,
    "residual-random": partial(residual, random=True),
    "head-scalar": partial(residual, tied=True),
    "top-heads": top_heads,
    "fisher-gains": fisher_preset,
    **{name: partial(preset, name=name) for name in PRESETS},
    "residual-direct": residual_direct,
    "residual-embedding": residual_embedding,
    "aligner": aligner,
    "lora": lora,
    "finetune": finetune,
}
