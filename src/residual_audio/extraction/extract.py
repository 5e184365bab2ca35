"""Extraction from start to finish: identity, missing shards, an engine, and the summary that completes a run."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Collection
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..data import Clip, Dataset
from ..models import Encoder
from ..progress import progress
from ..spectra import Moments
from ..spelling import printable
from ..units import Kind
from .capture import SKETCH
from .engines import local
from .integrity import check_run, digest_name, shard_problem, stamp
from .reopen import PROBE, differences, kept_weights, loading_record
from .run import CLIPS, MOMENTS, WEIGHTS, Run, write_clips
from .shard import ExtractionError, Settings, ShardWriter
from .store import Store, StoreError, digest_of, shard_name

HEADS: tuple[Kind, ...] = ("head",)
DRAWN = ("limit", "sample", "sample_seed")  # notes of a dataset that say which of its clips were taken
PACKAGES = ("residual-audio", "torch", "transformers", "numpy", "soundfile", "soxr")


def identity(encoder: Encoder, dataset: Dataset, settings: Settings, files: bool = True) -> dict[str, Any]:
    """Everything that a run must not mix: model, preprocessing, precision, clips (and with ``files`` their sizes and times), settings,
    versions."""

    def digest(rows: list[Any]) -> str:
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:12]

    stamps = {"files": digest([stamp(c) for c in dataset.clips])} if files else {}
    return {
        "model": {"name": encoder.name, "revision": encoder.revision},
        "preprocessing": {**asdict(encoder.policy), "hash": encoder.policy.hash},
        "precision": encoder.precision,
        "dataset": {"name": dataset.name, "clips": len(dataset), "hash": digest([c.id for c in dataset.clips]), **stamps},
        "settings": settings.record(),
        "units": asdict(encoder.units),
        "versions": {"python": platform.python_version(), **{p: version(p) for p in PACKAGES}},
    }


def open_or_create(store: Store, wanted: dict[str, Any], notes: dict[str, Any] | None = None, left: Collection[str] = ()) -> bool:
    """Start a run (True), or make sure that the one that is there is the same. ``notes`` are kept with a new run, and not compared.

    A run that was begun and never got anywhere claims nothing: it is begun anew. ``left``: what such a run leaves beside the record.
    """
    wanted = json.loads(json.dumps(wanted))
    begun_only = set(store.names(".")) <= {"run.json", WEIGHTS, *left}
    if store.exists("run.json") and not begun_only:
        there = {"precision": "float32", **store.read_json("run.json")}  # earlier runs knew no other
        changed = differences({k: there.get(k) for k in wanted}, wanted)
        if changed:
            shown = "\n  ".join(changed[:6])
            raise StoreError(
                f"{store.address} was begun with other settings and is not mixed:\n  {shown}\nUse the same ones, or another --out."
            )
        return False
    if not begun_only:
        raise StoreError(f"{store.address} is not empty and holds no run; choose another --out")
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    store.write_json("run.json", {**wanted, **(notes or {}), "status": "running", "begun": begun})
    return True


def reopening_notes(encoder: Encoder, dataset: Dataset) -> dict[str, Any]:
    """What a run keeps so that it can open its encoder, name its classes and say how its clips were drawn; no part of its identity."""
    return {
        "loading": loading_record(encoder),
        "class_names": {label: dataset.names[label] for label in dataset.labels},
        "drawn": {key: dataset.notes[key] for key in DRAWN if key in dataset.notes},
    }


def jobs_of(dataset: Dataset, settings: Settings) -> list[tuple[int, tuple[Clip, ...]]]:
    """Every shard's number with the clips that belong into it."""
    size = settings.shard_size
    return [(n, dataset.clips[n * size : (n + 1) * size]) for n in range(-(-len(dataset) // size))]


def complete_and_sound(store: Store) -> bool:
    """Whether what completes a run is there as it was written."""
    info = store.read_json("run.json")
    if info.get("status") != "complete":
        return False
    return not check_run(info, store, list(Run(store, info).all_clips["id"]))


def finish(store: Store, dataset: Dataset, settings: Settings, encoder: Encoder) -> None:
    """Merge the shards' moments in order, list the clips' fates, and mark the run complete."""
    totals: dict[str, Moments] = {}
    errors: dict[str, str] = {}
    digests = {WEIGHTS: digest_of(store.reading(WEIGHTS))}
    for number, _ in jobs_of(dataset, settings):
        name = shard_name(number)
        digests[name] = store.read_text(digest_name(name))
        with safe_open(store.reading(name), "pt") as file:
            errors |= {c["id"]: c["error"] for c in json.loads(file.metadata()["clips"])}
            for level in ("tokens", "clips"):
                if f"moments.{level}.count" in file.keys():  # noqa: SIM118
                    names = [f"moments.{level}.{part}" for part in ("count", "total", "second")]
                    part = Moments.from_tensors({n: file.get_tensor(n) for n in names}, f"moments.{level}")
                    totals[level] = totals[level] + part if level in totals else part
    if totals:
        store.write_tensors(MOMENTS, {k: v for level, m in totals.items() for k, v in m.tensors(f"moments.{level}").items()})
    rows = [
        {"id": c.id, "path": printable(c.path), "label": c.label, "fold": c.fold, "group": c.own_group,
         "status": "error" if errors[c.id] else "ok", "error": errors[c.id]}
        for c in dataset.clips
    ]  # fmt: skip
    write_clips(store, pd.DataFrame(rows))
    digests |= {name: digest_of(store.reading(name)) for name in (MOMENTS, CLIPS) if store.exists(name)}
    info = store.read_json("run.json")
    broken = sum(bool(e) for e in errors.values())
    left = dataset.without({id for id, error in errors.items() if error}).labels
    outcome = {"status": "complete", "clips": {"ok": len(rows) - broken, "errors": broken}, "labels": list(left), "digests": digests}
    store.write_json("run.json", {**reopening_notes(encoder, dataset), **info, **outcome})


def same_tensors(store: Store, weights: dict[str, Tensor]) -> bool:
    """Whether the weights that a run keeps are these."""
    try:
        there = store.read_tensors(WEIGHTS)
    except (SafetensorError, OSError):
        return False
    return there.keys() == weights.keys() and all(torch.equal(there[k], v.cpu()) for k, v in weights.items() if k != PROBE)


def extract(
    encoder: Encoder,
    dataset: Dataset,
    out: str | Path,
    granularity: tuple[str, ...] | list[str] = ("head", "moments"),
    *,
    batch_size: int = 16,
    dtype: str = "float32",
    units: str = "",
    sketch: int = SKETCH,
    engine: str = "local",
    workers: int | None = None,
    advance: Callable[[int], object] | None = None,
    **engine_options: Any,
) -> Run:
    """Record ``granularity`` of every clip into the directory ``out`` and open it.

    ``units`` selects the heads whose token maps are kept (with ``tokens``), such as ``"S2B1H7 S0B1H2"``; ``sketch`` is how many numbers
    are kept of a head's attention matrix (with ``attention``; as many as it has, 4,096 in HTS-AT, lose nothing).
    Killed at any moment, the same call resumes, and the result is bit-identical to an uninterrupted one. Clips that
    cannot be read are listed in ``clips.parquet`` and left out of the arrays. Shards that are damaged, or whose clips were replaced since,
    are made again.
    """
    heads = encoder.units.select(units, only=HEADS) if units else ()
    settings = Settings(tuple(granularity), batch_size, dtype, tuple(u.label for u in heads), sketch=sketch).sized(len(dataset))
    store = Store(str(out))
    if engine not in ("local", "ray"):
        raise ExtractionError(f"unknown engine {engine!r}; one of local, ray")
    with store.locked():
        open_or_create(store, identity(encoder, dataset, settings, files=False), reopening_notes(encoder, dataset))
        weights = kept_weights(encoder)
        if not store.exists(WEIGHTS) or not same_tensors(store, weights):
            store.write_tensors(WEIGHTS, weights)
        todo = [(n, clips) for n, clips in jobs_of(dataset, settings) if shard_problem(store, shard_name(n), clips)]
        there = len(dataset) - sum(len(clips) for _, clips in todo)
        with progress(f"{encoder.name} on {dataset.name}", len(dataset), advance, done=there) as advance:
            if engine == "ray":
                from .engines import ray

                ray.run(encoder, settings, store, todo, workers=workers, advance=advance, **engine_options)
            else:
                local.run(ShardWriter(encoder, settings, store, workers), todo, advance=advance, **engine_options)
        if todo or not complete_and_sound(store):
            finish(store, dataset, settings, encoder)
    return Run.open(out)
