"""Cross-validate methods against each other: same folds, same parts, every test clip scored once; resumable."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor

from ..adaptation.methods_old import METHODS, needs_inputs
from ..adaptation.ranking import settled
from ..adaptation.select import choose_places
from ..adaptation.streams import advanced, cache_streams, first_block
from ..adaptation.task import FoldResult, FoldTask, Recipe, Setting
from ..data import Dataset
from ..data.prompts import templates
from ..evaluation import EvaluationError
from ..evaluation.classifiers import prompt_directions
from ..evaluation.folds import fold_parts, with_folds
from ..evaluation.metrics import outcome
from ..evaluation.paired import paired_table
from ..evaluation.significance import mean_interval
from ..extraction.extract import identity, open_or_create
from ..extraction.shard import Settings
from ..extraction.store import Store
from ..models import Encoder
from .memory import watched_memory


def prepare(encoder: Encoder, dataset: Dataset, recipe: Recipe, folds: str, template: str, seed: int, workers: int | None = None,
            advance: Callable[[int], object] | None = None, inputs: bool = False) -> Setting:  # fmt: skip
    """Decode and run every clip once up to the first adapted block. ``inputs``: keep the model's inputs too."""
    if recipe.objective in ("prompts", "both") and not encoder.has_text:
        raise EvaluationError(f"{encoder.name} has no text side; use --objective centroid")
    # Prompts first: a missing tokenizer should be told before an hour of audio is encoded.
    names = [dataset.names[label] for label in dataset.labels]
    directions = prompt_directions(encoder, names, templates(template)).cpu() if encoder.has_text else None
    block = first_block(encoder, choose_places(encoder.units, recipe.units))
    sources = [c.source for c in dataset.clips]
    whole = cache_streams(encoder, sources, None, workers=workers, advance=advance) if inputs else None
    streams = advanced(whole, block) if whole is not None else cache_streams(encoder, sources, block, workers=workers, advance=advance)
    if not len(streams):
        first = next(iter(streams.errors.values()), "the dataset is empty")
        raise EvaluationError(f"{dataset.name}: none of {len(dataset)} clips could be read; the first error: {first}")
    readable = replace(dataset, clips=tuple(dataset.clips[i] for i in streams.readable))
    errors = {dataset.clips[i].id: message for i, message in streams.errors.items()}
    embeddings = streams.embed(np.arange(len(streams))).cpu()
    return Setting(encoder, with_folds(readable, folds, seed), streams, embeddings, directions, errors, whole)


@dataclass(frozen=True)
class Comparison:
    """``cells``: one row a method, fold and repeat; ``summary``: one a method; ``paired``: every method against the first."""

    cells: pd.DataFrame
    summary: pd.DataFrame
    paired: pd.DataFrame
    errors: dict[str, str]


def run_cell(method: str, task: FoldTask, other: Setting | None) -> tuple[FoldResult, dict[str, float]]:
    """One method on one fold, timed."""
    start = time.perf_counter()
    with watched_memory() as peak:
        result = METHODS[method](task)
    seconds = time.perf_counter() - start
    facts: dict[str, float] = {"trained": result.trained, "seconds": seconds, "peak_mb": peak[0] / 2**20}
    if other is not None and other.directions is not None and result.embed is not None:
        facts["other"] = accuracy_elsewhere(other, result.embed(other))
    return result, facts


def accuracy_elsewhere(other: Setting, embeddings: Tensor) -> float:
    """Zero-shot accuracy of the adapted model on another dataset: what adapting cost there."""
    scores = F.normalize(embeddings, dim=-1) @ other.directions.T  # type: ignore[union-attr]
    return float(outcome(scores.numpy(), other.dataset.targets).correct.mean())


def compare(
    encoder: Encoder,
    dataset: Dataset,
    methods: Sequence[str],
    out: str | Path,
    recipe: Recipe = Recipe(),
    *,
    other: Dataset | None = None,
    folds: str = "official",
    template: str = "sound-of",
    repeats: int = 1,
    shots: int | None = None,
    seed: int = 0,
    workers: int | None = None,
    advance: Callable[[int], object] | None = None,
    tell: Callable[[str], object] | None = None,
    ready: Setting | None = None,
) -> Comparison:
    """Cross-validate ``methods``. Each fold × method × repeat that is finished is kept in ``out``; the same call goes on where it stopped.

    ``other``: a second dataset on which the adapted models' zero-shot accuracy is measured too. ``shots``: so many clips a class
    for everything outside the test. ``advance(n)`` is told of clips while they are decoded, ``tell(line)`` of every finished cell.
    ``ready``: what :func:`prepare` gave for the same recipe, where several comparisons share it.
    """
    unknown = [m for m in methods if m not in METHODS]
    if unknown or not methods:
        raise EvaluationError(f"unknown method {', '.join(unknown) or '(none given)'}; one or more of {', '.join(METHODS)}")
    recipe = settled(recipe, encoder.units)
    store = Store(str(out))
    with store.locked():
        mine = identity(encoder, dataset, Settings(("embedding",)))
        choices = {
            "recipe": asdict(recipe),
            "folds": folds,
            "template": template,
            "shots": shots,
            "seed": seed,
            "other": other and other.name,
        }
        open_or_create(store, {**mine, "settings": choices})
        there = set(store.names("cells"))
        inputs = needs_inputs(list(methods), recipe)
        setting = ready or prepare(encoder, dataset, recipe, folds, template, seed, workers, advance, inputs)
        elsewhere = None if other is None else prepare(encoder, other, recipe, "official", template, seed, workers, advance, inputs)
        targets = torch.from_numpy(setting.dataset.targets)
        plan = [
            (method, fold, repeat, parts)
            for repeat in range(repeats)
            for fold, parts in fold_parts(setting.dataset, seed + repeat, shots)
            for method in methods
        ]
        began = time.monotonic()
        missing = [cell for cell in plan if cell_name(*cell[:3]) not in there]
        for done, (method, fold, repeat, parts) in enumerate(missing, start=1):
            result, facts = run_cell(method, FoldTask(setting, targets, parts, recipe, seed + repeat), elsewhere)
            header = {"facts": json.dumps(facts), "history": json.dumps(result.history), "cell": json.dumps([method, fold, repeat])}
            tensors = {"scores": result.scores.float(), "test": torch.from_numpy(parts.test)}
            store.write_tensors(f"cells/{cell_name(method, fold, repeat)}", tensors, header)
            if tell is not None:
                right = outcome(result.scores.numpy(), setting.dataset.targets[parts.test]).correct.mean()
                left = (time.monotonic() - began) / done * (len(missing) - done) / 60
                place = f"{len(plan) - len(missing) + done}/{len(plan)}"
                tell(f"{place} {method}, fold {fold}: {100 * right:.1f} % in {facts['seconds']:.0f} s; about {left:.0f} min left")
        wanted = [cell_name(*cell[:3]) for cell in plan]
        found = gather(store, wanted, setting.dataset.targets, list(methods), repeats, seed)
        store.write_json("run.json", {**store.read_json("run.json"), "status": "complete"})
    return replace(found, errors=setting.errors)


def cell_name(method: str, fold: int, repeat: int) -> str:
    return f"{method}-fold{fold}-repeat{repeat}.safetensors"


def gather(store: Store, names: Sequence[str], targets: np.ndarray, methods: list[str], repeats: int, seed: int) -> Comparison:
    """The tables, from the cells on disk alone."""
    rows = []
    correct = {m: np.zeros(len(targets)) for m in methods}
    for name in names:
        with safe_open(store.reading(f"cells/{name}"), "pt") as file:
            facts, (method, fold, repeat) = json.loads(file.metadata()["facts"]), json.loads(file.metadata()["cell"])
            scores, test = file.get_tensor("scores").numpy(), file.get_tensor("test").numpy()
        right = outcome(scores, targets[test]).correct
        correct[method][test] += right / repeats
        rows.append({"method": method, "fold": fold, "repeat": repeat, "clips": len(test), "accuracy": float(right.mean()), **facts})
    cells = pd.DataFrame(rows)
    summary = []
    for method in methods:
        mine = cells[cells.method == method]
        interval = mean_interval(correct[method], seed=seed)
        by_fold = mine.groupby("fold").accuracy.mean()
        summary.append(
            {
                "method": method,
                "trained": int(mine.trained.max()),
                "accuracy": float(by_fold.mean()),
                "std": float(by_fold.std()),
                "low": interval.low,
                "high": interval.high,
                "seconds": float(mine.seconds.mean()),
                "peak_mb": float(mine.peak_mb.max()),
                **({"other": float(mine.other.mean())} if "other" in mine and mine.other.notna().any() else {}),
            }
        )
    ordered = {m: cells[cells.method == m].sort_values(["repeat", "fold"]).accuracy.to_numpy() for m in methods}
    paired = paired_table(correct, ordered, methods[0], cells.fold.nunique(), seed)
    return Comparison(cells, pd.DataFrame(summary), paired, {})
