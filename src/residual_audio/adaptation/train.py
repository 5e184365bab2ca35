"""Learn the gains, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..models import Encoder
from .attach import attached
from .gain import ResiDual
from .objective import CentroidBank, Objective
from .streams import Rows, Streams


@dataclass(frozen=True)
class Training:
    """How the gains are learned. ``decay`` pulls towards one, ``l1`` towards zero; ``rate=None`` looks for a learning rate."""

    epochs: int = 40
    patience: int = 6
    batch_size: int = 64
    optimiser: Literal["adamw", "adam", "schedulefree"] = "adamw"
    rate: float | None = 0.02
    decay: float = 1e-4
    l1: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Trained:
    """The best gains on the stopping part, and what happened on the way."""

    residual: ResiDual
    history: list[dict[str, float]]
    rate: float

    @property
    def best(self) -> dict[str, float]:
        return max(self.history, key=lambda h: (h["stop_accuracy"], -h["stop_loss"]))


@contextmanager
def frozen(encoder: Encoder) -> Iterator[None]:
    """Inside, no weight of the encoder asks for a gradient."""
    asked = [p for p in encoder.module.parameters() if p.requires_grad]
    for parameter in asked:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in asked:
            parameter.requires_grad_(True)


def make_optimiser(gains: list[Tensor], kind: str, rate: float) -> torch.optim.Optimizer:
    """Decay is part of the loss (it pulls towards one, not zero), so none is given here."""
    if kind == "schedulefree":
        from schedulefree import AdamWScheduleFree

        return AdamWScheduleFree(gains, lr=rate, weight_decay=0.0)
    return (torch.optim.AdamW if kind == "adamw" else torch.optim.Adam)(gains, lr=rate, weight_decay=0.0)


class Task:
    """Gains on their way: the clips they learn from and the clips that say when to stop."""

    def __init__(self, encoder: Encoder, residual: ResiDual, streams: Streams, train: Rows, stop: Rows, targets: Tensor, classes: int,
                 objective: Objective, how: Training) -> None:  # fmt: skip
        self.encoder, self.streams, self.train, self.stop, self.objective, self.how = encoder, streams, train, stop, objective, how
        self.residual = residual.to(encoder.device, encoder.dtype)
        self.gains = [s.gain.clone().requires_grad_() for s in self.residual.sets]
        self.targets, self.classes = targets.to(encoder.device), classes
        self.bank: CentroidBank | None = None

    def refresh(self) -> None:
        """A new bank from the gains as they are."""
        if self.objective.centroids:
            with attached(self.encoder, self.residual, [g.detach() for g in self.gains]):
                self.bank = CentroidBank(self.streams.embed(self.train), self.targets[self.train], self.classes)

    def penalty(self) -> Tensor:
        towards_one = sum(((g - 1).square().sum() for g in self.gains), start=torch.zeros((), device=self.encoder.device))
        sparse = sum((g.abs().sum() for g in self.gains), start=torch.zeros((), device=self.encoder.device))
        return self.how.decay * towards_one + self.how.l1 * sparse

    def step(self, places: Rows, optimiser: torch.optim.Optimizer) -> float:
        """One batch: ``places`` are positions in the training part."""
        rows = self.train[places]
        optimiser.zero_grad()
        with attached(self.encoder, self.residual, self.gains):
            embeddings = self.encoder.resume(self.streams.batch(rows), self.streams.block)
        where = torch.from_numpy(places).to(self.encoder.device)
        loss = self.objective.loss(embeddings, where, self.targets[rows], self.bank)
        (loss + self.penalty()).backward()
        optimiser.step()
        if self.bank is not None:
            self.bank.store(embeddings, where)
        return float(loss.detach())

    @torch.no_grad()
    def evaluate(self) -> tuple[float, float]:
        """Loss and accuracy on the stopping part."""
        with attached(self.encoder, self.residual, [g.detach() for g in self.gains]):
            scores = self.objective.scores(self.streams.embed(self.stop), self.bank)
        targets = self.targets[self.stop]
        return float(F.cross_entropy(scores, targets)), float(scores.argmax(1).eq(targets).float().mean())

    def batches(self, generator: np.random.Generator) -> Iterator[Rows]:
        order = generator.permutation(len(self.train))
        for start in range(0, len(order), self.how.batch_size):
            yield order[start : start + self.how.batch_size]


def find_rate(make: Callable[[], Task], kind: str, lowest: float = 1e-4, highest: float = 1.0, steps: int = 30) -> float:
    """Raise the rate step by step on a copy of the gains; the answer is a third of where the smoothed loss was lowest."""
    task = make()
    task.refresh()
    rng = np.random.default_rng(task.how.seed)
    optimiser = make_optimiser(task.gains, kind, lowest)
    switch(optimiser, "train")
    rates = np.geomspace(lowest, highest, steps)
    smooth, best, answer = 0.0, math.inf, lowest
    batches: Iterator[Rows] = iter(())
    for i, rate in enumerate(rates):
        for group in optimiser.param_groups:
            group["lr"] = float(rate)
        places = next(batches, None)
        if places is None:
            batches = task.batches(rng)
            places = next(batches)
        loss = task.step(places, optimiser)
        smooth = 0.7 * smooth + 0.3 * loss
        value = smooth / (1 - 0.7 ** (i + 1))
        if not math.isfinite(value) or value > 2 * best:
            break
        if value < best:
            best, answer = value, float(rate)
    return answer / 3


def switch(optimiser: torch.optim.Optimizer, mode: Literal["train", "eval"]) -> None:
    """Schedule-free optimisers keep two versions of the parameters: one to step, one to judge."""
    if hasattr(optimiser, mode):
        getattr(optimiser, mode)()


def train_gains(
    encoder: Encoder,
    residual: ResiDual,
    streams: Streams,
    train: Rows,
    stop: Rows,
    targets: Tensor,
    classes: int,
    objective: Objective,
    how: Training = Training(),
    advance: Callable[[dict[str, float]], object] | None = None,
) -> Trained:
    """Train on the clips ``train``; the gains that were best on the separate clips ``stop`` are what is given back.

    Stops after ``patience`` epochs without a better stopping accuracy (or the same at a lower loss). ``advance`` is told of every epoch.
    """
    if set(train.tolist()) & set(stop.tolist()):
        raise ValueError("the training and the stopping part overlap")

    def make() -> Task:
        return Task(encoder, residual, streams, train, stop, targets, classes, objective, how)

    with frozen(encoder):
        rate = find_rate(make, how.optimiser) if how.rate is None else how.rate
        task = make()
        task.refresh()
        optimiser, rng = make_optimiser(task.gains, how.optimiser, rate), np.random.default_rng(how.seed)
        loss, accuracy = task.evaluate()
        history = [{"epoch": 0, "train_loss": float("nan"), "stop_loss": loss, "stop_accuracy": accuracy}]
        best, kept, waited = (accuracy, -loss), [g.detach().clone() for g in task.gains], 0
        for epoch in range(1, how.epochs + 1):
            switch(optimiser, "train")
            losses = [task.step(places, optimiser) for places in task.batches(rng)]
            switch(optimiser, "eval")
            loss, accuracy = task.evaluate()
            history.append({"epoch": epoch, "train_loss": float(np.mean(losses)), "stop_loss": loss, "stop_accuracy": accuracy})
            if advance is not None:
                advance(history[-1])
            if (accuracy, -loss) > best:
                best, kept, waited = (accuracy, -loss), [g.detach().clone() for g in task.gains], 0
            else:
                waited += 1
            if waited >= how.patience or not math.isfinite(history[-1]["train_loss"]):
                break
    learned = residual.with_gains([g.cpu().to(s.gain.dtype) for g, s in zip(kept, residual.sets, strict=True)])
    return Trained(replace(learned, notes={**residual.notes, "rate": rate, "epochs": len(history) - 1}), history, rate)
