"""What a comparison keeps on disk, so that it can be killed anywhere and resumed: adapted embeddings, and cells of scores.

``embeddings/METHOD-foldF-repeatR``: what a method made of the clips outside and inside the test, learned once for all classifiers.
``cells/ROW-foldF-repeatR``: the scores of the test clips, and what they cost.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from safetensors import safe_open
from torch import Tensor

from ..adaptation.methods import METHODS
from ..adaptation.recipe import Recipe
from ..adaptation.task import Adaptation, FoldTask
from ..adaptation.tuning import label_share, learn
from ..evaluation import CLASSIFIERS
from ..evaluation.folds import Parts
from ..evaluation.metrics import outcome
from ..extraction.extract import differences
from ..extraction.store import Store, StoreError
from ..options import option_specs
from .elsewhere import Elsewhere, in_short
from .memory import watched_memory
from .protocol import Protocol
from .rows import Row
from .strength import parse_strengths

# Options that came after comparisons were first kept.
LATER = ("precision", "weight_decay", "components", "blocks", "factor", "leading", "beyond", "weak", "drop_tokens")


@dataclass(frozen=True)
class Work:
    """One method on one fold of one repeat, and the rows that are made of it."""

    method: str
    fold: int
    repeat: int
    parts: Parts
    rows: tuple[Row, ...]

    @property
    def place(self) -> str:
        return f"fold{self.fold}-repeat{self.repeat}.safetensors"

    @property
    def embeddings(self) -> str:
        return f"embeddings/{self.method}-{self.place}"

    def cell(self, row: Row) -> str:
        return f"cells/{row.name}-{self.place}"

    @property
    def digest(self) -> str:
        """Of who may see which clip: cells of other parts are not mixed."""
        rows = [part.tolist() for part in (self.parts.basis, self.parts.train, self.parts.stop, self.parts.test)]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:12]

    def missing(self, store: Store) -> list[Row]:
        return [row for row in self.rows if not self.there(store, self.cell(row))]

    def there(self, store: Store, name: str) -> bool:
        """Whether a file is there; one that was made of other parts of the clips (by an earlier version) is refused."""
        if not store.exists(name):
            return False
        if header(store, name).get("parts") != self.digest:
            raise StoreError(f"{store.address} was begun with other parts of the clips (by another version); use another --out")
        return True


def header(store: Store, name: str) -> dict[str, Any]:
    """What a file says of itself."""
    with safe_open(store.reading(name), "pt") as file:
        return {key: json.loads(value) for key, value in file.metadata().items()}


def write(store: Store, name: str, tensors: dict[str, Tensor], said: dict[str, Any]) -> None:
    store.write_tensors(name, tensors, {key: json.dumps(value) for key, value in said.items()})


@dataclass(frozen=True)
class Adapted:
    """What a method left on a fold: embeddings of all clips that it may see or is tested on (zero elsewhere), or its own scores.

    ``ways``: the same at other strengths, and what each costs elsewhere. ``stopping``: accuracy on the clips that say when to stop.
    """

    facts: dict[str, Any]
    history: list[Any]
    embeddings: Tensor | None = None
    scores: Tensor | None = None
    ways: tuple[tuple[dict[str, float], Tensor], ...] = ()
    stopping: float | None = None


def adapt_fold(
    work: Work, task: FoldTask, recipe: Recipe, protocol: Protocol, elsewhere: Elsewhere, store: Store, recorded: dict[str, Any]
) -> Adapted:
    """Learned now and kept, or read where it was kept before."""
    used = np.union1d(work.parts.seen, work.parts.test)
    if not work.there(store, work.embeddings):
        learned, facts = run_method(work, task, recipe, protocol)
        measured = elsewhere.measured(learned, work.fold)
        facts |= measured
        every = None if learned.scores is not None else embedded(learned, task)
        left: dict[str, Tensor] = {"embeddings": every[used]} if every is not None else {"scores": learned.scores}  # type: ignore[dict-item]
        costs = []
        for i, tau in enumerate(parse_strengths(protocol.strengths) if learned.scaled is not None else ()):
            part = learned if tau == 1 else learned.scaled(tau)
            left[f"embeddings{i}"] = left["embeddings"].clone() if tau == 1 else embedded(part, task)[used]
            costs.append({"tau": tau, **in_short(measured if tau == 1 else elsewhere.measured(part, work.fold))})
        about: dict[str, Any] = {"facts": facts, "ways": costs, "history": learned.history, "options": recorded, "method": work.method}
        about |= {"stopping": on_stopping_part(work, task, learned, every)}
        write(store, work.embeddings, left, {**about, "parts": work.digest})
    said, tensors = header(store, work.embeddings), store.read_tensors(work.embeddings)
    if "scores" in tensors:
        return Adapted(said["facts"], said["history"], scores=tensors["scores"], stopping=said.get("stopping"))

    def whole(part: Tensor) -> Tensor:
        every = part.new_zeros(len(task.targets), part.shape[1])
        every[used] = part
        return every

    ways = tuple((way, whole(tensors[f"embeddings{i}"])) for i, way in enumerate(said["ways"]))
    return Adapted(said["facts"], said["history"], whole(tensors["embeddings"]), ways=ways, stopping=said.get("stopping"))


def on_stopping_part(work: Work, task: FoldTask, learned: Adaptation, embeddings: Tensor | None) -> float | None:
    """The accuracy on clips that say when to stop: the best of a training, or that of a method that trains nothing, so that its options,
    too, can be chosen without the test. None where nothing is left to say so."""
    known = [epoch["stop_accuracy"] for epoch in learned.history if np.isfinite(epoch["stop_accuracy"])]
    parts = work.parts
    if known or embeddings is None or not METHODS[work.method].searchable or not len(parts.stop):
        return max(known, default=None)
    judge = replace(task, parts=replace(parts, basis=parts.train[:0], stop=parts.train[:0], test=parts.stop))
    right = outcome(judge.scores(embeddings, task.aim("auto")).numpy(), task.targets[parts.stop].numpy()).correct
    return float(right.mean())


def embedded(learned: Adaptation, task: FoldTask) -> Tensor:
    assert learned.embed is not None
    return learned.embed(task.setting)


def run_method(work: Work, task: FoldTask, recipe: Recipe, protocol: Protocol) -> tuple[Adaptation, dict[str, Any]]:
    """What a method left, and what it cost."""
    start = time.perf_counter()
    with watched_memory() as peak:
        learned, chosen = learn(work.method, task, recipe.options(work.method), protocol)
    facts: dict[str, Any] = {"trained": learned.trained, "seconds": time.perf_counter() - start, "peak_mb": peak[0] / 2**20}
    facts["labels"] = label_share(work.method, work.parts, protocol.again)
    return learned, facts | {"chosen": chosen}


def judge(work: Work, row: Row, task: FoldTask, left: Adapted) -> tuple[Tensor, dict[str, Any]]:
    """Scores of the test clips by a row's classifier, and what the row cost in all."""
    facts = dict(left.facts)
    chosen = facts.pop("chosen")
    if left.embeddings is None:
        assert left.scores is not None
        return left.scores.float(), facts
    classifier, start = CLASSIFIERS[row.classifier], time.perf_counter()
    with watched_memory() as peak:
        fitted = task.fitted(left.embeddings, classifier)
        scores = fitted.scores(left.embeddings[work.parts.test])
    facts["trained"] += fitted.scorer.trained
    facts["seconds"] += time.perf_counter() - start
    facts["peak_mb"] = max(facts["peak_mb"], peak[0] / 2**20)
    facts["labels"] = 1.0 if classifier.reads_folds else facts["labels"]
    if chosen := {**chosen, **fitted.scorer.chosen}:
        facts["chosen"] = ", ".join(f"{name}={value:g}" for name, value in chosen.items())
    if left.ways:
        right = task.targets[work.parts.test].numpy()
        judged = [outcome(task.scores(part, classifier).numpy(), right).correct.mean() for _, part in left.ways]
        facts["curve"] = [{**way, "accuracy": float(correct)} for (way, _), correct in zip(left.ways, judged, strict=True)]
    return scores.float(), facts


def with_later_ones(method: str, options: dict[str, Any]) -> dict[str, Any]:
    """The recorded options of a cell; one that was added to the method since then had its default."""
    later = {name: spec.default for name, spec in option_specs(METHODS[method].options).items() if name in LATER}
    return {**later, **options}


def check_options(store: Store, recorded: dict[str, dict[str, Any]]) -> None:
    """What is kept of a method must have been made with the same options; other methods' options do not matter."""
    for folder in ("embeddings", "cells"):
        for name in store.names(folder):
            said = header(store, f"{folder}/{name}")
            method = said.get("method")
            if method not in recorded:
                continue
            before, now = with_later_ones(method, said.get("options", {})), recorded[method]
            changed = differences(before, now)
            # An option that the version of then did not know: what it does by default now was not done then.
            changed += [f"{option}: unknown then → {now[option]}" for option in now if option not in before]
            if changed:
                raise StoreError(
                    f"{store.address} holds cells of {method} made with other options, and they are not mixed:\n  "
                    + "\n  ".join(changed[:6])
                    + "\nUse the same ones, or another --out."
                )
