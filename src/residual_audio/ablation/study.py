"""How much each unit matters: replace it, and see what the classifier loses."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from ..data import Dataset
from ..data.prompts import DEFAULT_TEMPLATE
from ..evaluation import EvaluationError, FoldClassifier, choose_classifier
from ..evaluation.directions import class_directions
from ..evaluation.folds import with_folds
from ..extraction.extract import identity, open_or_create
from ..extraction.shard import Settings
from ..extraction.store import Store, shard_name
from ..models import Encoder
from ..models.batching import as_batch, batches
from ..progress import Advance, progress
from ..results import provenance
from ..writing import own_folder
from .engine import ABLATABLE, Ablation, Replacements, UnitMeans
from .first_order import first_order
from .result import AblationResult

BASE = "base.safetensors"
LONGEST_NAME = 80


def survey(encoder: Encoder, dataset: Dataset, batch_size: int, workers: int | None, store: Store,
           advance: Advance) -> tuple[Tensor, Replacements, dict[str, str]]:  # fmt: skip
    """Embeddings of the whole model and the units' means: one plain forward of every clip, kept in the store."""
    if not store.exists(BASE):
        means = UnitMeans(encoder)
        parts: list[Tensor] = []
        failed: dict[str, str] = {}
        for batch in batches([c.source for c in dataset.clips], encoder.prepare, batch_size, workers):
            failed |= {dataset.clips[row].id: str(error) for row, error in batch.errors.items()}
            if batch.clips:
                features, longer, _ = as_batch(encoder, batch.clips)
                parts.append(means.run(features, longer).cpu())
            advance(len(batch))
        if not parts:
            first = next(iter(failed.values()), "the dataset is empty")
            raise EvaluationError(f"{dataset.name}: none of {len(dataset)} clips could be read; the first error: {first}")
        mean = means.replacements()
        tensors = {f"heads.{i}": h for i, h in enumerate(mean.heads)} | {f"mlp.{i}": m for i, m in enumerate(mean.mlp)}
        store.write_tensors(BASE, {**tensors, "embeddings": torch.cat(parts)}, {"errors": json.dumps(failed)})
    else:
        advance(len(dataset))
    with safe_open(store.reading(BASE), "pt") as file:
        failed = json.loads(file.metadata()["errors"])
    tensors = {k: v.to(encoder.device) for k, v in store.read_tensors(BASE).items()}
    count = len(encoder.sites)
    heads, mlp = (tuple(tensors[f"{name}.{i}"] for i in range(count)) for name in ("heads", "mlp"))
    return tensors["embeddings"].cpu(), Replacements("mean", heads, mlp), failed


def margin_score(classifier: FoldClassifier, targets: Tensor, rows: slice) -> Callable[[Tensor], Tensor]:
    """Differentiable margin of each clip of ``rows``."""

    def score(embedding: Tensor) -> Tensor:
        scores = classifier.scores(embedding.cpu(), rows)
        own = scores.gather(1, targets[rows, None])[:, 0]
        return own - scores.scatter(1, targets[rows, None], -torch.inf).amax(1)

    return score


def parts_folder(settings: dict[str, Any]) -> str:
    """The folder in which an ablation keeps its finished parts: ``ablation/S3-heads-mean-prompts``."""
    words = settings["units"].replace(" ", "-")
    if len(words) > LONGEST_NAME:
        words = f"units-{hashlib.sha256(words.encode()).hexdigest()[:12]}"
    some = f"-{settings['clips']}clips" if "clips" in settings else ""
    return f"ablation/{words}-{settings['how']}-{settings['classifier']}{some}"


def ablate(
    encoder: Encoder,
    dataset: Dataset,
    units: str = "heads",
    how: str = "mean",
    classifier: str = "auto",
    *,
    template: str | None = None,
    folds: str | None = None,
    clips: int | None = None,
    batch_size: int = 8,
    rows: int = 32,
    out: str | Path | None = None,
    workers: int | None = None,
    seed: int = 0,
    advance: Callable[[int], object] | None = None,
) -> AblationResult:
    """Replace each of ``units`` in turn by zero or by its mean over the data, and classify again.

    ``units`` is a selection of heads, MLPs, blocks or stages, such as ``"S3 heads"`` (:meth:`.UnitTable.select`). ``classifier`` is made
    once with the whole model: one of :data:`.evaluation.CLASSIFIERS`, or ``auto``. ``template`` and ``folds`` are for classifiers that
    read them (by default ``sound-of`` and ``official``). ``clips``: ablate only so many, spread over the classes; classifier and means
    still come from all clips, so that fewer cost precision only. The forward up to a unit's block runs once and only the rest is
    repeated; ``rows`` clips × units go through at a time. With ``out``, finished parts are kept in ``out/ablation``, and the same call
    resumes. ``advance(n)`` is told of clips: all of the dataset, then those that are ablated.
    """
    selected = encoder.units.select(units, only=ABLATABLE)
    chosen = choose_classifier(classifier, encoder, template)
    if how not in ("zero", "mean"):
        raise EvaluationError(f"unknown way {how!r}; zero or mean")
    if folds is not None and not chosen.reads_folds:
        raise EvaluationError(
            f"--folds {folds}: the classifier {chosen.name} learns nothing from clips, so it reads no folds; leave it out"
        )
    if len(dataset.labels) < 2:
        raise EvaluationError(f"{dataset.name} has one class; what a classifier loses needs at least two")
    if encoder.policy.crop == "windows":
        raise EvaluationError("ablation looks at one window per clip; use --crop start or centre")
    # Prompts first: an unknown set or a missing tokenizer should be told before an hour of audio is encoded.
    directions = class_directions(encoder, dataset, template).cpu() if chosen.reads_text(encoder) else None
    made_by = provenance(encoder, dataset)
    dataset = with_folds(dataset, folds or "official", seed) if chosen.reads_folds else dataset
    settings: dict[str, Any] = {
        "units": " ".join(re.split(r"[\s,+]+", units.strip())),
        "how": how,
        "classifier": chosen.name,
        **({"template": template or DEFAULT_TEMPLATE} if directions is not None else {}),
        **({"folds": folds or "official"} if chosen.reads_folds else {}),
        **({} if clips is None else {"clips": clips}),
        "batch_size": batch_size,
        "seed": seed,
    }
    with ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory()) if out is None else out
        store = Store(f"{home}/{parts_folder(settings)}")
        if store.local is not None:
            own_folder(store.local, below=Path(home))
        stack.enter_context(store.locked())
        open_or_create(store, {**identity(encoder, dataset, Settings(("embedding",), batch_size)), "settings": settings})
        count = len(dataset) + min(clips or len(dataset), len(dataset))
        advance = stack.enter_context(progress(f"ablation of {units}, {encoder.name} on {dataset.name}", count, advance))
        embeddings, means, errors = survey(encoder, dataset, batch_size, workers, store, advance)
        readable = dataset.without(errors)
        if len(readable.labels) < 2:
            raise EvaluationError(f"{dataset.name}: only clips of the class {readable.labels[0]} could be read; two are needed")
        directions = None if directions is None else directions[dataset.rows_of(readable.labels)]
        fitted = chosen.fit_folds(embeddings, readable, directions, encoder.logit_scale, seed)
        ablation = Ablation(encoder, selected, means if how == "mean" else Replacements.zero(encoder), rows)
        part, fitted = (readable, fitted) if clips is None else subset(readable, fitted, clips, seed)
        run_shards(ablation, part, fitted, store, batch_size, workers, advance)
        parts = [store.read_tensors(f"shards/{name}") for name in store.names("shards")]
        store.write_json("run.json", {**store.read_json("run.json"), "status": "complete"})
    whole, ablated, estimate = (torch.cat([p[k] for p in parts]).numpy() for k in ("whole", "ablated", "estimate"))
    made_by["settings"] = {**settings, "limit": dataset.notes.get("limit")}
    return AblationResult(
        selected, encoder.units, part.labels, part.targets, part.groups, whole, ablated.transpose(1, 0, 2), estimate.T, errors, made_by
    )


def subset(dataset: Dataset, classifier: FoldClassifier, count: int, seed: int) -> tuple[Dataset, FoldClassifier]:
    """Some of the clips, all of the classes, and the classifier of all clips for those rows."""
    chosen = {c.id for c in dataset.limited(count, seed=seed).clips}
    rows = [i for i, c in enumerate(dataset.clips) if c.id in chosen]
    return replace(dataset, clips=tuple(dataset.clips[i] for i in rows)), replace(classifier, fold=classifier.fold[rows])


def run_shards(ablation: Ablation, dataset: Dataset, classifier: FoldClassifier, store: Store, size: int, workers: int | None,
               advance: Advance) -> None:  # fmt: skip
    """One shard per batch: scores with the model whole, with each unit replaced, and the first-order estimates."""
    encoder, targets = ablation.encoder, torch.from_numpy(dataset.targets)
    there = set(store.names("shards"))
    numbers = [n for n in range(-(-len(dataset) // size)) if Path(shard_name(n)).name not in there]
    clips = [c for n in numbers for c in dataset.clips[n * size : (n + 1) * size]]
    advance(len(dataset) - len(clips))
    for number, batch in zip(numbers, batches([c.source for c in clips], encoder.prepare, size, workers), strict=True):
        for row, error in batch.errors.items():
            raise EvaluationError(f"{clips[row].id} could be read a moment ago and cannot now: {error}")
        rows = slice(number * size, number * size + len(batch))
        features, longer, _ = as_batch(encoder, batch.clips)
        score = margin_score(classifier, targets, rows)
        estimate = first_order(encoder, features, longer, score, ablation.units, ablation.replacements)
        plain, changed = ablation.run(features, longer)
        tensors = {
            "whole": classifier.scores(plain.cpu(), rows),
            "ablated": classifier.scores(changed.cpu(), rows).transpose(0, 1),
            "estimate": estimate.cpu().T,
        }
        store.write_tensors(shard_name(number), tensors)
        advance(len(batch))
