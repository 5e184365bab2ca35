"""How much each unit matters: replace it, and see what the classifier loses."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from safetensors import safe_open
from scipy.stats import spearmanr
from torch import Tensor

from ..audio import Prepared
from ..data import Clip, Dataset
from ..data.prompts import templates
from ..evaluation.classifiers import prompt_directions
from ..evaluation.metrics import margins, outcome, per_class_mean
from ..evaluation.readout import EvaluationError, Readout, centroid_readout, probe_readout, prompt_readout
from ..evaluation.significance import mean_intervals
from ..evaluation.zero_shot import with_folds
from ..extraction.extract import identity, open_or_create
from ..extraction.shard import Settings, as_batch
from ..extraction.store import Store, shard_name
from ..media import MediaError
from ..models import Encoder
from ..models.batching import prepared_ahead
from ..units import Unit
from .engine import KINDS, Ablation, Kind, Replacements, UnitMeans, first_order

METRICS = ("zero-shot", "centroid", "probe")
BASE = "base.safetensors"


@dataclass(frozen=True)
class AblationResult:
    """Scores of every clip with the model whole and with each unit replaced, and the tables made of them."""

    kind: Kind
    how: str
    metric: str
    labels: list[str]
    places: pd.DataFrame
    classes: tuple[str, ...]
    targets: np.ndarray
    whole: Float[np.ndarray, "clip class"]
    ablated: Float[np.ndarray, "unit clip class"]
    estimate: Float[np.ndarray, "unit clip"]
    errors: dict[str, str]
    seed: int = 0

    def _drops(self) -> tuple[np.ndarray, np.ndarray]:
        """Per unit and clip: what was right and is not (or the other way round), and how much margin went."""
        right = outcome(self.whole, self.targets).correct.astype(float)
        ablated_right = np.stack([outcome(scores, self.targets).correct for scores in self.ablated])
        return right - ablated_right, margins(self.whole, self.targets) - margins(self.ablated, self.targets)

    def table(self) -> pd.DataFrame:
        """One row a unit. Drops are whole − ablated (positive: the unit helps), with 95 % paired bootstrap intervals over clips."""
        accuracy, margin = self._drops()
        rows = self.places.copy()
        for name, values in (("accuracy", accuracy), ("margin", margin)):
            rows[f"{name}_drop"], rows[f"{name}_low"], rows[f"{name}_high"] = mean_intervals(values.T, seed=self.seed)
        return rows.assign(first_order=self.estimate.mean(1), clips=len(self.targets))

    def per_class(self) -> pd.DataFrame:
        """One row a unit and class."""
        accuracy, margin = self._drops()
        count = np.bincount(self.targets, minlength=len(self.classes))
        parts = [
            pd.DataFrame(
                {
                    "label": label,
                    "class": self.classes,
                    "clips": count,
                    "accuracy_drop": per_class_mean(accuracy[i], self.targets, len(self.classes)),
                    "margin_drop": per_class_mean(margin[i], self.targets, len(self.classes)),
                }
            )
            for i, label in enumerate(self.labels)
        ]
        return pd.concat(parts, ignore_index=True)

    @property
    def accuracy(self) -> float:
        """Of the whole model."""
        return float(outcome(self.whole, self.targets).correct.mean())

    def agreement(self) -> tuple[float, float]:
        """Spearman's rank correlation of the first-order estimate with the true drop in margin over the units, and p."""
        if len(self.labels) < 3:
            return float("nan"), float("nan")
        found = spearmanr(self.estimate.mean(1), self._drops()[1].mean(1))
        return float(found.statistic), float(found.pvalue)


def unit_places(encoder: Encoder, labels: Sequence[str], kind: Kind) -> pd.DataFrame:
    """Where the ablated units are."""
    depth = {pair: i for i, pair in enumerate(encoder.units.blocks)}
    rows: list[tuple[str, str, int, int, int, int]] = []
    for label in labels:
        if kind in ("head", "mlp"):
            unit = Unit.parse(label)
            rows.append((label, kind, unit.stage, unit.block, depth[unit.stage, unit.block], unit.head))
        else:
            stage, _, block = label.removeprefix("S").partition("B")
            rows.append((label, kind, int(stage), int(block or -1), depth[int(stage), int(block or 0)], -1))
    return pd.DataFrame(rows, columns=["label", "kind", "stage", "block", "depth", "head"])


def batches(
    encoder: Encoder, clips: Sequence[Clip], size: int, workers: int | None
) -> Iterator[tuple[list[Clip], list[Prepared], dict[str, str]]]:
    """Readable clips ``size`` at a time at fixed places, and the errors of the others."""
    outcomes = prepared_ahead([c.source for c in clips], encoder.prepare, workers, ahead=2 * size)
    good: list[Clip] = []
    ready: list[Prepared] = []
    errors: dict[str, str] = {}
    for place, (clip, found) in enumerate(zip(clips, outcomes, strict=True), start=1):
        if isinstance(found, MediaError):
            errors[clip.id] = str(found)
        else:
            good.append(clip)
            ready.append(found)
        if place % size == 0 or place == len(clips):
            yield good, ready, errors
            good, ready, errors = [], [], {}


def survey(encoder: Encoder, dataset: Dataset, batch_size: int, workers: int | None, store: Store,
           advance: Callable[[int], object] | None) -> tuple[Tensor, Replacements, dict[str, str]]:  # fmt: skip
    """Embeddings of the whole model and the units' means: one plain forward of every clip, kept in the store."""
    if not store.exists(BASE):
        means = UnitMeans(encoder)
        parts: list[Tensor] = []
        failed: dict[str, str] = {}
        for good, ready, errors in batches(encoder, dataset.clips, batch_size, workers):
            failed |= errors
            if good:
                features, longer, _ = as_batch(encoder, ready)
                parts.append(means.run(features, longer).cpu())
            if advance is not None:
                advance(len(good) + len(errors))
        if not parts:
            first = next(iter(failed.values()), "the dataset is empty")
            raise EvaluationError(f"{dataset.name}: none of {len(dataset)} clips could be read; the first error: {first}")
        found = means.replacements()
        tensors = {f"heads.{i}": h for i, h in enumerate(found.heads)} | {f"mlp.{i}": m for i, m in enumerate(found.mlp)}
        store.write_tensors(BASE, {**tensors, "embeddings": torch.cat(parts)}, {"errors": json.dumps(failed)})
    elif advance is not None:
        advance(len(dataset))
    with safe_open(store.reading(BASE), "pt") as file:
        failed = json.loads(file.metadata()["errors"])
    tensors = {k: v.to(encoder.device) for k, v in store.read_tensors(BASE).items()}
    count = len(encoder.sites)
    heads, mlp = (tuple(tensors[f"{name}.{i}"] for i in range(count)) for name in ("heads", "mlp"))
    return tensors["embeddings"].cpu(), Replacements("mean", heads, mlp), failed


def make_readout(dataset: Dataset, metric: str, embeddings: Tensor, directions: Tensor | None, seed: int) -> Readout:
    """The classifier of the whole model; it stays as it is while units are replaced."""
    if directions is not None:
        return prompt_readout(directions, len(dataset))
    return centroid_readout(embeddings, dataset) if metric == "centroid" else probe_readout(embeddings, dataset, seed)


def margin_score(readout: Readout, targets: Tensor, rows: slice) -> Callable[[Tensor], Tensor]:
    """Differentiable margin of each clip of ``rows``."""

    def score(embedding: Tensor) -> Tensor:
        scores = readout.scores(embedding.cpu(), rows)
        own = scores.gather(1, targets[rows, None])[:, 0]
        return own - scores.scatter(1, targets[rows, None], -torch.inf).amax(1)

    return score


def ablate(
    encoder: Encoder,
    dataset: Dataset,
    unit: Kind = "head",
    how: str = "mean",
    metric: str = "zero-shot",
    *,
    template: str = "sound-of",
    folds: str = "official",
    batch_size: int = 8,
    rows: int = 32,
    out: str | Path | None = None,
    workers: int | None = None,
    seed: int = 0,
    advance: Callable[[int], object] | None = None,
) -> AblationResult:
    """Replace every ``unit`` in turn by zero or by its mean over the data, and classify again.

    ``metric`` says by what: prompts (``zero-shot``), the other folds' centroids (``centroid``) or a logistic probe (``probe``), each made
    once with the whole model. The forward up to a unit's block runs once and only the rest is repeated; ``rows`` clips × units go through
    at a time. With ``out``, what is finished is kept there, and the same call goes on where it stopped.
    ``advance(n)`` is told of clips; there are two passes, so it counts to twice their number.
    """
    if unit not in KINDS:
        raise EvaluationError(f"unknown unit {unit!r}; one of {', '.join(KINDS)}")
    if how not in ("zero", "mean"):
        raise EvaluationError(f"unknown way {how!r}; zero or mean")
    if metric not in METRICS:
        raise EvaluationError(f"unknown metric {metric!r}; one of {', '.join(METRICS)}")
    if metric == "zero-shot" and not encoder.has_text:
        raise EvaluationError(f"{encoder.name} has no text side; use --metric centroid or probe")
    if len(dataset.labels) < 2:
        raise EvaluationError(f"{dataset.name} has one class; what a classifier loses needs at least two")
    if encoder.policy.crop == "windows":
        raise EvaluationError("ablation looks at one window a clip; use --crop start or centre")
    # Prompts first: an unknown set or a missing tokenizer should be told before an hour of audio is encoded.
    names = [dataset.names[label] for label in dataset.labels]
    directions = prompt_directions(encoder, names, templates(template)).cpu() if metric == "zero-shot" else None
    dataset = with_folds(dataset, folds, seed)
    with ExitStack() as stack:
        store = Store(str(out) if out is not None else stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(store.locked())
        mine = identity(encoder, dataset, Settings(("embedding",), batch_size))
        choices = {"unit": unit, "how": how, "metric": metric, "template": template, "folds": folds, "batch_size": batch_size, "seed": seed}
        open_or_create(store, {**mine, "settings": choices})
        embeddings, means, errors = survey(encoder, dataset, batch_size, workers, store, advance)
        readable = replace(dataset, clips=tuple(c for c in dataset.clips if c.id not in errors))
        readout = make_readout(readable, metric, embeddings, directions, seed)
        ablation = Ablation(encoder, unit, means if how == "mean" else Replacements.zero(encoder), rows)
        run_shards(ablation, readable, readout, store, batch_size, workers, advance)
        names = store.names("shards")
        parts = [store.read_tensors(f"shards/{name}") for name in names]
        store.write_json("run.json", {**store.read_json("run.json"), "status": "complete"})
    whole, ablated, estimate = (torch.cat([p[k] for p in parts]).numpy() for k in ("whole", "ablated", "estimate"))
    return AblationResult(
        unit, how, metric, ablation.labels, unit_places(encoder, ablation.labels, unit), readable.labels, readable.targets,
        whole, ablated.transpose(1, 0, 2), estimate.T, errors, seed,
    )  # fmt: skip


def run_shards(ablation: Ablation, dataset: Dataset, readout: Readout, store: Store, size: int, workers: int | None,
               advance: Callable[[int], object] | None) -> None:  # fmt: skip
    """One shard a batch: scores with the model whole, with each unit replaced, and the first-order estimates."""
    encoder, targets = ablation.encoder, torch.from_numpy(dataset.targets)
    there = set(store.names("shards"))
    numbers = [n for n in range(-(-len(dataset) // size)) if Path(shard_name(n)).name not in there]
    clips = [c for n in numbers for c in dataset.clips[n * size : (n + 1) * size]]
    if advance is not None:
        advance(len(dataset) - len(clips))
    for number, (good, ready, errors) in zip(numbers, batches(encoder, clips, size, workers), strict=True):
        if errors:
            raise EvaluationError(f"{next(iter(errors))} could be read a moment ago and cannot now: {next(iter(errors.values()))}")
        rows = slice(number * size, number * size + len(good))
        features, longer, _ = as_batch(encoder, ready)
        estimate = first_order(encoder, features, longer, margin_score(readout, targets, rows), ablation.kind, ablation.replacements)
        plain, changed = ablation.run(features, longer)
        tensors = {
            "whole": readout.scores(plain.cpu(), rows),
            "ablated": readout.scores(changed.embeddings.cpu(), rows).transpose(0, 1),
            "estimate": estimate.cpu().T,
        }
        store.write_tensors(shard_name(number), tensors)
        if advance is not None:
            advance(len(good))
