"""Extraction from start to finish: identity, missing shards, an engine, and the summary that completes a run."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
from safetensors import safe_open

from ..data import Dataset
from ..models import Encoder
from ..spectra import Moments
from ..units import Kind
from .engines import local
from .reopen import differences, kept_weights, loading_record
from .run import MOMENTS, WEIGHTS, Run, write_clips
from .shard import ExtractionError, Settings, ShardWriter
from .store import Store, StoreError, shard_name

HEADS: tuple[Kind, ...] = ("head",)
PACKAGES = ("residual-audio", "torch", "transformers", "numpy", "soundfile", "soxr")


def identity(encoder: Encoder, dataset: Dataset, settings: Settings) -> dict[str, Any]:
    """Everything that a run must not mix: model, preprocessing, clips, settings, versions."""
    rows = json.dumps([[c.id, c.path] for c in dataset.clips])
    return {
        "model": {"name": encoder.name, "revision": encoder.revision},
        "preprocessing": {**asdict(encoder.policy), "hash": encoder.policy.hash},
        "dataset": {"name": dataset.name, "clips": len(dataset), "hash": hashlib.sha256(rows.encode()).hexdigest()[:12]},
        "settings": settings.record(),
        "units": asdict(encoder.units),
        "versions": {"python": platform.python_version(), **{p: version(p) for p in PACKAGES}},
    }


def open_or_create(store: Store, wanted: dict[str, Any], notes: dict[str, Any] | None = None) -> None:
    """Start a run, or make sure that the one that is there is the same. ``notes`` are kept with a new run, and not compared."""
    wanted = json.loads(json.dumps(wanted))
    if store.exists("run.json"):
        there = store.read_json("run.json")
        changed = differences({k: there.get(k) for k in wanted}, wanted)
        if changed:
            shown = "\n  ".join(changed[:6])
            raise StoreError(
                f"{store.address} was begun with other settings and is not mixed:\n  {shown}\nUse the same ones, or another --out."
            )
        return
    if store.names("."):
        raise StoreError(f"{store.address} is not empty and holds no run; choose another --out")
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    store.write_json("run.json", {**wanted, **(notes or {}), "status": "running", "begun": begun})


def reopening_notes(encoder: Encoder, dataset: Dataset) -> dict[str, Any]:
    """What a run keeps so that it can open its encoder and name its classes by itself; no part of its identity."""
    return {"loading": loading_record(encoder), "class_names": {label: dataset.names[label] for label in dataset.labels}}


def missing_shards(store: Store, clips: int, settings: Settings) -> list[int]:
    """Numbers of the shards that are not there yet."""
    there = set(store.names("shards"))
    count = -(-clips // settings.shard_size)
    return [n for n in range(count) if Path(shard_name(n)).name not in there]


def finish(store: Store, dataset: Dataset, settings: Settings, encoder: Encoder) -> None:
    """Merge the shards' moments in order, list the clips' fates, and mark the run complete."""
    totals: dict[str, Moments] = {}
    errors: dict[str, str] = {}
    for name in store.names("shards"):
        with safe_open(store.reading(f"shards/{name}"), "pt") as file:
            errors |= {c["id"]: c["error"] for c in json.loads(file.metadata()["clips"])}
            for level in ("tokens", "clips"):
                if f"moments.{level}.count" in file.keys():  # noqa: SIM118
                    names = [f"moments.{level}.{part}" for part in ("count", "total", "second")]
                    part = Moments.from_tensors({n: file.get_tensor(n) for n in names}, f"moments.{level}")
                    totals[level] = totals[level] + part if level in totals else part
    if totals:
        store.write_tensors(MOMENTS, {k: v for level, m in totals.items() for k, v in m.tensors(f"moments.{level}").items()})
    rows = [
        {"id": c.id, "path": c.path, "label": c.label, "fold": c.fold, "group": c.own_group,
         "status": "error" if errors[c.id] else "ok", "error": errors[c.id]}
        for c in dataset.clips
    ]  # fmt: skip
    write_clips(store, pd.DataFrame(rows))
    info = store.read_json("run.json")
    broken = sum(bool(e) for e in errors.values())
    outcome = {"status": "complete", "clips": {"ok": len(rows) - broken, "errors": broken}, "labels": list(dataset.labels)}
    store.write_json("run.json", {**reopening_notes(encoder, dataset), **info, **outcome})


def extract(
    encoder: Encoder,
    dataset: Dataset,
    out: str | Path,
    granularity: tuple[str, ...] | list[str] = ("head", "moments", "embedding"),
    *,
    batch_size: int = 16,
    dtype: str = "float32",
    units: str = "",
    engine: str = "local",
    workers: int | None = None,
    advance: Callable[[int], object] | None = None,
    **engine_options: Any,
) -> Run:
    """Record ``granularity`` of every clip into the directory ``out`` and open it.

    ``units`` selects the heads whose token maps are kept (with ``tokens``), such as ``"S2B1H7 S0B1H2"``.
    Killed at any moment, the same call resumes, and the result is bit-identical to an uninterrupted one. Clips that
    cannot be read are listed in ``clips.parquet`` and left out of the arrays.
    """
    heads = encoder.units.select(units, only=HEADS) if units else ()
    settings = Settings(tuple(granularity), batch_size, dtype, tuple(u.label for u in heads))
    store = Store(str(out))
    if engine not in ("local", "ray"):
        raise ExtractionError(f"unknown engine {engine!r}; one of local, ray")
    with store.locked():
        open_or_create(store, identity(encoder, dataset, settings), reopening_notes(encoder, dataset))
        if not store.exists(WEIGHTS):
            store.write_tensors(WEIGHTS, kept_weights(encoder))
        todo = missing_shards(store, len(dataset), settings)
        size = settings.shard_size
        jobs = [(n, dataset.clips[n * size : (n + 1) * size]) for n in todo]
        if advance is not None:
            advance(len(dataset) - sum(len(clips) for _, clips in jobs))
        if engine == "ray":
            from .engines import ray

            ray.run(encoder, settings, store, jobs, workers=workers, advance=advance, **engine_options)
        else:
            local.run(ShardWriter(encoder, settings, store, workers), jobs, advance=advance, **engine_options)
        if todo or not Run.open(out).complete:
            finish(store, dataset, settings, encoder)
    return Run.open(out)
