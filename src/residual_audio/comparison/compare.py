"""Cross-validate methods against each other: same folds, same parts, every test clip scored once; resumable."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor

from ..adaptation.methods import METHODS
from ..adaptation.prepare import prepare
from ..adaptation.recipe import Recipe
from ..adaptation.task import Adaptation, FoldTask, Setting
from ..adaptation.tuning import check_untuned, label_share, learn
from ..data import Dataset
from ..evaluation import EvaluationError
from ..evaluation.folds import Parts, fold_parts
from ..evaluation.metrics import outcome
from ..extraction.extract import differences, identity, open_or_create
from ..extraction.shard import Settings
from ..extraction.store import Store, StoreError
from ..models import Encoder
from ..results import Result, provenance
from .memory import watched_memory
from .protocol import COMPARED, Protocol
from .tables import gather

STORE = "comparison"


@dataclass(frozen=True)
class Comparison(Result):
    """``comparison_cells``: one row per method, fold and repeat; ``comparison_summary``: one per method; ``comparison_paired``: one per
    pair of methods, those with the first (the baseline) first."""

    record: ClassVar[str] = "comparison"
    tables: dict[str, pd.DataFrame]
    info: dict[str, Any]
    errors: dict[str, str]

    @property
    def cells(self) -> pd.DataFrame:
        return self.tables["comparison_cells"]

    @property
    def summary(self) -> pd.DataFrame:
        return self.tables["comparison_summary"]

    @property
    def paired(self) -> pd.DataFrame:
        return self.tables["comparison_paired"]


@dataclass(frozen=True)
class Cell:
    """One method on one fold of one repeat."""

    method: str
    fold: int
    repeat: int
    parts: Parts

    @property
    def name(self) -> str:
        return f"cells/{self.method}-fold{self.fold}-repeat{self.repeat}.safetensors"

    @property
    def digest(self) -> str:
        """Of who may see which clip: cells of other parts are not mixed."""
        rows = [part.tolist() for part in (self.parts.basis, self.parts.train, self.parts.stop, self.parts.test)]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:12]


def run_cell(
    cell: Cell, task: FoldTask, recipe: Recipe, protocol: Protocol, other: Setting | None
) -> tuple[Adaptation, Tensor, dict[str, Any]]:
    """What a method left, its scores of the test clips, and what it cost."""
    options: Any = recipe.options(cell.method)
    start = time.perf_counter()
    with watched_memory() as peak:
        learned, chosen = learn(cell.method, task, options, protocol.tune, protocol.again)
        scores = task.scores(learned.embed(task.setting), options.classifier) if learned.scores is None else learned.scores
    seconds = time.perf_counter() - start
    facts: dict[str, Any] = {"trained": learned.trained, "seconds": seconds, "peak_mb": peak[0] / 2**20}
    facts["labels"] = label_share(cell.method, cell.parts, protocol.again)
    facts |= {"chosen": ", ".join(f"{name}={value:g}" for name, value in chosen.items())} if chosen else {}
    if other is not None and other.directions is not None and learned.embed is not None:
        facts["other"] = accuracy_elsewhere(other, other.directions, learned.embed(other))
    return learned, scores, facts


def accuracy_elsewhere(other: Setting, directions: Tensor, embeddings: Tensor) -> float:
    """Zero-shot accuracy of the adapted model on another dataset: what adapting cost there."""
    scores = F.normalize(embeddings, dim=-1) @ directions.T
    return float(outcome(scores.numpy(), other.dataset.targets).correct.mean())


def compare(
    encoder: Encoder,
    dataset: Dataset,
    out: str | Path,
    methods: Sequence[str] = COMPARED,
    recipe: Recipe = Recipe(),
    protocol: Protocol = Protocol(),
    *,
    other: Dataset | None = None,
    shots: int | None = None,
    workers: int | None = None,
    advance: Callable[[int], object] | None = None,
    tell: Callable[[str], object] | None = None,
    ready: Setting | None = None,
) -> Comparison:
    """Cross-validate ``methods``; the first is the baseline. Finished cells are kept in ``out/comparison``: the same call resumes.

    ``other``: a second dataset on which the adapted models' zero-shot accuracy is measured too. ``shots``: so many clips per class
    for everything outside the test. ``advance(n)`` is told of clips while they are decoded, ``tell(line)`` of every finished cell.
    ``ready``: what :func:`prepare` gave for the same methods and recipe, where several comparisons share it.
    """
    if not methods:
        raise EvaluationError(f"no method is named; one or more of {', '.join(METHODS)}")
    recipe.check(methods)
    seed, repeats = protocol.seed, protocol.repeats
    if protocol.tune:
        check_untuned(recipe, list(methods))
    choices: dict[str, Any] = {name: True for name in ("tune", "again") if getattr(protocol, name)}
    choices |= {"folds": protocol.folds, "template": protocol.template, "seed": seed, "shots": shots, "other": other and other.name}
    recorded = {m: json.loads(json.dumps(recipe.recorded(m, encoder.units))) for m in methods}
    store = Store(str(Path(out) / STORE))
    with store.locked():
        open_or_create(store, {**identity(encoder, dataset, Settings(("embedding",))), "settings": choices})
        check_options(store, recorded)
        prepared = partial(prepare, encoder, template=protocol.template, seed=seed, workers=workers, advance=advance)
        setting = ready or prepared(dataset, methods, recipe, folds=protocol.folds)
        elsewhere = None if other is None else prepared(other, methods, recipe)
        targets = torch.from_numpy(setting.dataset.targets)
        plan = [
            Cell(method, fold, repeat, parts)
            for repeat in range(repeats)
            for fold, parts in fold_parts(setting.dataset, seed + repeat, shots)
            for method in methods
        ]
        began = time.monotonic()
        missing = [cell for cell in plan if not finished(store, cell)]
        for done, cell in enumerate(missing, start=1):
            task = FoldTask(setting, targets, cell.parts, seed + cell.repeat)
            learned, scores, facts = run_cell(cell, task, recipe, protocol, elsewhere)
            key = [cell.method, cell.fold, cell.repeat]
            header = {"facts": facts, "history": learned.history, "cell": key, "options": recorded[cell.method], "parts": cell.digest}
            tensors = {"scores": scores.float(), "test": torch.from_numpy(cell.parts.test)}
            store.write_tensors(cell.name, tensors, {k: json.dumps(v) for k, v in header.items()})
            if tell is not None:
                right = outcome(scores.numpy(), setting.dataset.targets[cell.parts.test]).correct.mean()
                left = (time.monotonic() - began) / done * (len(missing) - done) / 60
                place = f"{len(plan) - len(missing) + done}/{len(plan)}"
                tell(f"{place} {cell.method}, fold {cell.fold}: {100 * right:.1f} % in {facts['seconds']:.0f} s; about {left:.0f} min left")
        tables = gather(store, [cell.name for cell in plan], setting.dataset, methods, repeats, seed, protocol.margin)
        store.write_json("run.json", {**store.read_json("run.json"), "status": "complete"})
    info = {**provenance(encoder, dataset), "settings": {**choices, "repeats": repeats, "methods": recorded}}
    return Comparison(tables, info, setting.errors)


def finished(store: Store, cell: Cell) -> bool:
    """Whether a cell is there; one that was made of other parts of the clips (by an earlier version) is refused."""
    if not store.exists(cell.name):
        return False
    with safe_open(store.reading(cell.name), "pt") as file:
        if json.loads(file.metadata().get("parts", "null")) != cell.digest:
            raise StoreError(f"{store.address} was begun with other parts of the clips (by another version); use another --out")
    return True


def check_options(store: Store, recorded: dict[str, dict[str, Any]]) -> None:
    """Finished cells of a method must have been made with the same options; other methods' options do not matter."""
    for name in store.names("cells"):
        with safe_open(store.reading(f"cells/{name}"), "pt") as file:
            header = file.metadata()
        method = json.loads(header["cell"])[0]
        changed = differences(json.loads(header.get("options", "{}")), recorded[method]) if method in recorded else []
        if changed:
            raise StoreError(
                f"{store.address} holds cells of {method} made with other options, and they are not mixed:\n  "
                + "\n  ".join(changed[:6])
                + "\nUse the same ones, or another --out."
            )
