"""Adapters on disk, in PEFT's shape: ``adapter_config.json``, ``adapter_model.safetensors``, ``README.md``. Written whole or not at all."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from ..models import Encoder
from ..writing import drafted_folder
from .gain import GainSet, ResiDual
from .select import Place

CONFIG, WEIGHTS, CARD = "adapter_config.json", "adapter_model.safetensors", "README.md"


class AdapterError(ValueError):
    """An adapter that cannot be read, or that belongs to another model."""


def base_of(encoder: Encoder) -> dict[str, Any]:
    """What an adapter is bound to."""
    return {
        "name": encoder.name,
        "revision": encoder.revision,
        "preprocessing_hash": encoder.policy.hash,
        "units": {"heads": encoder.units.heads, "d_head": encoder.units.d_head, "d_model": encoder.units.d_model},
    }


def card(encoder: Encoder, residual: ResiDual) -> str:
    """A README that says what this is and how to use it."""
    changed = sum(int((s.gain - 1).abs().gt(1e-3).sum()) for s in residual.sets)
    places = sorted({s.place.form for s in residual.sets})
    notes = "\n".join(f"- {key}: {value}" for key, value in residual.notes.items())
    return f"""---
library_name: residual-audio
base_model: {encoder.name}
tags: [residual, audio, clap]
---

# ResiDual gains for {encoder.name}

{residual.trained} gains, one per principal axis of {", ".join(places)} ({len(residual.sets)} places);
{changed} differ from one by more than 0.001. Mean: {residual.mean}. Everything else is the base model's.

- base model: {encoder.name}, revision {encoder.revision}
- preprocessing: {encoder.policy.hash}
{notes}

```
residual-audio fold {encoder.name} THIS_FOLDER --out FOLDED   # an ordinary checkpoint
```

```python
import residual_audio as ra

encoder = ra.load_encoder("{encoder.name}")
folded = ra.fold(encoder, ra.load_adapter("THIS_FOLDER", encoder))
```
"""


def save_adapter(folder: str | Path, encoder: Encoder, residual: ResiDual) -> Path:
    """Write the three files beside their place and move them there together."""
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()) and not (folder / CONFIG).exists():
        raise AdapterError(f"{folder} is not empty and holds no adapter; choose another --out")
    tensors = {f"{i}.{k}": getattr(s, k).contiguous() for i, s in enumerate(residual.sets) for k in ("axes", "mean", "variance", "gain")}
    config = {
        "peft_type": "RESIDUAL",
        "base_model_name_or_path": encoder.name,
        "base": base_of(encoder),
        "mean": residual.mean,
        "places": [asdict(s.place) for s in residual.sets],
        "trained_parameters": residual.trained,
        "notes": residual.notes,
    }
    with drafted_folder(folder) as draft:
        save_file(tensors, draft / WEIGHTS)
        (draft / CONFIG).write_text(json.dumps(config, indent=2, default=str) + "\n")
        (draft / CARD).write_text(card(encoder, residual))
        if folder.exists():
            shutil.rmtree(folder)
    return folder


def _folder(source: str | Path) -> Path:
    """A directory, or a hub repository fetched through huggingface_hub."""
    if Path(source).is_dir():
        return Path(source)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(str(source), allow_patterns=[CONFIG, WEIGHTS, CARD]))
    except (HFValidationError, LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        raise AdapterError(
            f"{source}: neither a directory nor a hub repository that can be reached ({str(error).splitlines()[0]})"
        ) from error


def load_adapter(source: str | Path, encoder: Encoder) -> ResiDual:
    """Read an adapter for ``encoder``; one that was made for another base is refused with the reason."""
    folder = _folder(source)
    if not (folder / CONFIG).is_file() or not (folder / WEIGHTS).is_file():
        raise AdapterError(f"{folder}: no {CONFIG} and {WEIGHTS}; expected a directory written by `residual-audio adapt`")
    config = json.loads((folder / CONFIG).read_text())
    if config.get("peft_type") != "RESIDUAL":
        raise AdapterError(f"{folder}: an adapter of type {config.get('peft_type')}, not ResiDual gains")
    made, here = config["base"], json.loads(json.dumps(base_of(encoder)))
    wrong = [f"{key}: {made[key]} there, {here[key]} here" for key in ("revision", "preprocessing_hash", "units") if made[key] != here[key]]
    if wrong:
        raise AdapterError(f"{folder} was made for {made['name']}, not for {encoder.name}:\n  " + "\n  ".join(wrong))
    tensors = load_file(folder / WEIGHTS)
    sets = []
    for i, place in enumerate(config["places"]):
        where = Place(place["form"], tuple(tuple(b) for b in place["blocks"]), tuple(place["heads"]))
        sets.append(GainSet(where, *(tensors[f"{i}.{k}"] for k in ("axes", "mean", "variance", "gain"))))
    return ResiDual(tuple(sets), config["mean"], config["notes"])


def push_adapter(folder: str | Path, repository: str, private: bool = False) -> str:
    """Upload an adapter's directory to the hub; returns its address."""
    from huggingface_hub import HfApi

    api = HfApi()
    api.create_repo(repository, private=private, exist_ok=True)
    return str(api.upload_folder(folder_path=str(folder), repo_id=repository, allow_patterns=[CONFIG, WEIGHTS, CARD]))
