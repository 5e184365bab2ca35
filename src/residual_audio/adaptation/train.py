"""Learn gains, or whatever else can be learned, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor

from ..models.precision import chosen_precision
from ..progress import progress
from .gain import ResiDual
from .learner import GainLearner, Learner, SharedLearner
from .objective import CentroidBank, Objective
from .streams import Rows, Streams

Epoch = dict[str, float]


@dataclass(frozen=True)
class Training:
    """How parameters are learned. ``decay`` pulls towards their neutral value or their start (gains: one), ``l1`` towards zero;
    ``rate=None``: find one. ``weight_decay`` is the optimiser's own, which pulls towards zero. ``precision``: of products, in steps and
    on the stopping part. ``drop_tokens``: the share of a clip's tokens that a step leaves out; nothing is judged without them."""

    epochs: int = 40
    patience: int = 6
    batch_size: int = 64
    optimiser: str = "adamw"
    rate: float | None = 0.02
    decay: float = 1e-4
    l1: float = 0.0
    seed: int = 0
    precision: str = "float32"
    weight_decay: float = 0.0
    drop_tokens: float = 0.0


@dataclass(frozen=True)
class Lesson:
    """The clips that are learned from, the clips that say when to stop (without any, the last epoch counts), and what is right.

    ``keep``: weight of the squared distance of unit embeddings from those of the ``plain`` model, which bounds how far any answer moves: on
    the clips ``unlabelled``, as many per step as are learned from, or where there are none, on those that are learned from.
    ``trusting``: the clips to learn from and to stop by may be the same, as in a published report.
    """

    train: Rows
    stop: Rows
    targets: Tensor
    classes: int
    objective: Objective
    keep: float = 0.0
    plain: Tensor | None = None
    unlabelled: Rows = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    trusting: bool = False

    def __post_init__(self) -> None:
        if not self.trusting and set(self.train.tolist()) & set(self.stop.tolist()):
            raise ValueError("the training and the stopping part overlap")


@dataclass(frozen=True)
class Trained:
    """The best gains on the stopping part, and what happened on the way."""

    residual: ResiDual
    history: list[Epoch]
    rate: float

    @property
    def best(self) -> Epoch:
        return best_epoch(self.history)


def best_epoch(history: list[Epoch]) -> Epoch:
    """The most accurate on the stopping part, of equals the one with the lowest loss; the last one where nothing says when to stop."""
    if math.isnan(history[0]["stop_accuracy"]):
        return history[-1]
    return max(history, key=lambda h: (h["stop_accuracy"], -h["stop_loss"]))


def training_table(history: list[Epoch]) -> pd.DataFrame:
    """One row per epoch, 0 being the model as it was; ``kept``: the epoch whose gains were kept. Empty where nothing was trained."""
    table = pd.DataFrame(history)
    return table.assign(kept=table["epoch"] == best_epoch(history)["epoch"]) if history else table


def make_optimiser(learner: Learner, kind: str, rate: float, weight_decay: float = 0.0) -> torch.optim.Optimizer:
    """Our decay is part of the loss (it pulls towards the start); ``weight_decay`` is AdamW's own, towards zero."""
    scales = getattr(learner, "scales", [1.0] * len(learner.parameters))
    parameters = [
        {"params": [p for p, s in zip(learner.parameters, scales, strict=True) if s == scale], "lr": rate * scale, "scale": scale}
        for scale in dict.fromkeys(scales)
    ]
    if kind == "schedulefree":
        from schedulefree import AdamWScheduleFree

        optimiser: torch.optim.Optimizer = AdamWScheduleFree(parameters, lr=rate, weight_decay=weight_decay)
        return optimiser
    return (torch.optim.AdamW if kind == "adamw" else torch.optim.Adam)(parameters, lr=rate, weight_decay=weight_decay)


def switch(optimiser: torch.optim.Optimizer, mode: Literal["train", "eval"]) -> None:
    """Schedule-free optimisers keep two versions of the parameters: one to step, one to judge."""
    if hasattr(optimiser, mode):
        getattr(optimiser, mode)()


class Course:
    """A learner on its way through a lesson."""

    def __init__(self, learner: Learner, lesson: Lesson, how: Training) -> None:
        self.learner, self.lesson, self.how = learner, lesson, how
        device = learner.parameters[0].device
        if isinstance(learner, SharedLearner):
            learner.precision = chosen_precision(how.precision, device)
            learner.drop(how.drop_tokens, how.seed)
        self.targets = lesson.targets.to(device)
        # Gains are pulled towards one, also those that start elsewhere; other parameters towards where they start.
        neutral = getattr(learner, "neutral", None) or [None] * len(learner.parameters)
        self.anchors = [
            p.detach().clone() if value is None else torch.full_like(p, value) for p, value in zip(learner.parameters, neutral, strict=True)
        ]
        self.drawn = np.random.default_rng([how.seed, 1])
        self.bank: CentroidBank | None = None
        if lesson.objective.centroids:
            with torch.no_grad():
                self.bank = CentroidBank(learner.embed(lesson.train), self.targets[lesson.train], lesson.classes)

    def penalty(self) -> None:
        """The gradient of decay and sparsity, added to the parameters'."""
        for i, parameter in enumerate(self.learner.parameters):
            value = parameter.detach()
            pull = self.how.l1 * value.sign() + (2 * self.how.decay * (value - self.anchors[i]) if self.how.decay else 0.0)
            parameter.grad = pull if parameter.grad is None else parameter.grad + pull

    def to_keep(self, rows: Rows) -> Rows:
        """The clips whose answers a step keeps: those it learns from, or as many of the others, drawn at random."""
        if not self.lesson.keep:
            return rows[:0]
        if not len(self.lesson.unlabelled):
            return rows
        return self.drawn.choice(self.lesson.unlabelled, min(len(rows), len(self.lesson.unlabelled)), replace=False)

    def step(self, places: Rows, optimiser: torch.optim.Optimizer) -> float:
        """One batch: ``places`` are positions in the training part."""
        rows = self.lesson.train[places]
        kept = self.to_keep(rows)
        others = kept if len(self.lesson.unlabelled) else kept[:0]
        optimiser.zero_grad()
        every = self.learner.forward(np.concatenate([rows, others])).requires_grad_()
        embeddings, beside = every[: len(rows)], every[len(rows) :] if len(others) else every
        where = torch.from_numpy(places).to(embeddings.device)
        loss = self.lesson.objective.loss(embeddings, where, self.targets[rows], self.bank)
        if len(kept):
            assert self.lesson.plain is not None
            moved = F.normalize(beside, dim=-1) - F.normalize(self.lesson.plain[kept].to(every), dim=-1)
            loss = loss + self.lesson.keep * moved.square().sum(-1).mean()
        loss.backward()
        assert every.grad is not None
        self.learner.backward(every.grad)
        if self.how.decay or self.how.l1:
            self.penalty()
        optimiser.step()
        if self.bank is not None:
            self.bank.store(embeddings, where)
        return float(loss.detach())

    @torch.no_grad()
    def loss(self, places: Rows) -> float:
        """Of a batch as things are."""
        rows = self.lesson.train[places]
        embeddings = self.learner.embed(rows)
        return float(self.lesson.objective.loss(embeddings, torch.from_numpy(places).to(embeddings.device), self.targets[rows], self.bank))

    @torch.no_grad()
    def evaluate(self) -> tuple[float, float]:
        """Loss and accuracy on the stopping part; nothing where there is none."""
        if not len(self.lesson.stop):
            return math.nan, math.nan
        scores = self.lesson.objective.scores(self.learner.embed(self.lesson.stop), self.bank)
        targets = self.targets[self.lesson.stop]
        return float(F.cross_entropy(scores, targets)), float(scores.argmax(1).eq(targets).float().mean())

    def batches(self, generator: np.random.Generator) -> Iterator[Rows]:
        order = generator.permutation(len(self.lesson.train))
        for start in range(0, len(order), self.how.batch_size):
            yield order[start : start + self.how.batch_size]


def find_rate(learner: Learner, lesson: Lesson, how: Training, lowest: float = 1e-4, highest: float = 1.0, steps: int = 30) -> float:
    """Raise the rate step by step; the answer is a third of where the smoothed loss was furthest below its start. Parameters are put back.

    Every batch is compared with its own loss before the first step: batches differ more from each other than a few steps change them.
    Steps are Adam's whatever will be used: a schedule-free optimiser weighs its steps by their rate, and a rising one confuses it.
    """
    before = [p.detach().clone() for p in learner.parameters]
    course = Course(learner, lesson, how)
    batches = list(course.batches(np.random.default_rng(how.seed)))
    starts = [course.loss(places) for places in batches[:steps]]
    optimiser = make_optimiser(learner, "adam", lowest)
    smooth, best, answer = 0.0, 0.0, lowest
    for i, rate in enumerate(np.geomspace(lowest, highest, steps)):
        for group in optimiser.param_groups:
            group["lr"] = float(rate) * group["scale"]
        number = i % len(batches)
        change = course.step(batches[number], optimiser) - starts[number]
        smooth = 0.7 * smooth + 0.3 * change
        value = smooth / (1 - 0.7 ** (i + 1))
        if not math.isfinite(value) or change > max(1.0, starts[number]):
            break
        if value < best:
            best, answer = value, float(rate)
    put(learner, before)
    return answer / 3


@torch.no_grad()
def put(learner: Learner, values: list[Tensor]) -> None:
    for parameter, value in zip(learner.parameters, values, strict=True):
        parameter.copy_(value)


def train(learner: Learner, lesson: Lesson, how: Training, advance: Callable[[Epoch], object] | None = None) -> tuple[list[Epoch], float]:
    """Train in place; the parameters that were best on the stopping part are what is left. Gives the history and the learning rate.

    Stops after ``patience`` epochs without a better stopping accuracy (or the same at a lower loss). ``advance`` is told of every epoch.
    """
    rate = find_rate(learner, lesson, how) if how.rate is None else how.rate
    course = Course(learner, lesson, how)
    optimiser, rng = make_optimiser(learner, how.optimiser, rate, how.weight_decay), np.random.default_rng(how.seed)
    loss, accuracy = course.evaluate()
    history = [{"epoch": 0, "train_loss": float("nan"), "stop_loss": loss, "stop_accuracy": accuracy}]
    best, kept, waited = (accuracy, -loss), [p.detach().clone() for p in learner.parameters], 0
    with progress("epochs, at most", how.epochs) as done:
        for epoch in range(1, how.epochs + 1):
            switch(optimiser, "train")
            losses = [course.step(places, optimiser) for places in course.batches(rng)]
            switch(optimiser, "eval")
            loss, accuracy = course.evaluate()
            history.append({"epoch": epoch, "train_loss": float(np.mean(losses)), "stop_loss": loss, "stop_accuracy": accuracy})
            done(1)
            if advance is not None:
                advance(history[-1])
            if (accuracy, -loss) > best or not len(lesson.stop):
                best, kept, waited = (accuracy, -loss), [p.detach().clone() for p in learner.parameters], 0
            else:
                waited += 1
            if waited >= how.patience or not math.isfinite(history[-1]["train_loss"]):
                break
    put(learner, kept)
    return history, rate


def train_gains(
    residual: ResiDual, streams: Streams, lesson: Lesson, how: Training = Training(), advance: Callable[[Epoch], object] | None = None
) -> Trained:
    """The numbers of a form from their start to their best on the stopping part; nothing else changes."""
    learner = GainLearner(residual, streams)
    history, rate = train(learner, lesson, how, advance)
    learned = residual.with_values([v.cpu().to(s.values.dtype) for v, s in zip(learner.parameters, residual.sets, strict=True)])
    return Trained(replace(learned, notes={**residual.notes, "rate": rate, "epochs": len(history) - 1}), history, rate)
