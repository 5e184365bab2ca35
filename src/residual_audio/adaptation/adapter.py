"""Adapters on disk, in PEFT's shape: ``adapter_config.json``, ``adapter_model.safetensors``, ``README.md``. Written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ..models import Encoder
from ..models.loading import split_revision
from ..writing import drafted
from .card import CARD, adapter_card
from .gain import TENSORS, GainSet, ResiDual
from .modules import modules_of, with_blocks
from .select import Place
from .validate import AdapterError, check_residual, check_schema, check_tensors

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
ADAPTER = (CONFIG, WEIGHTS, CARD)
# The digest in the config says which weights it belongs to; while both are replaced, the old ones are kept under another name.
DIGEST, EARLIER = "weights_sha256", f".{WEIGHTS}.earlier"


def base_of(encoder: Encoder) -> dict[str, Any]:
    """What an adapter is bound to."""
    return {
        "name": encoder.name,
        "revision": encoder.revision,
        "preprocessing_hash": encoder.policy.hash,
        "units": {"heads": encoder.units.heads, "d_head": encoder.units.d_head, "d_model": encoder.units.d_model},
    }


def save_adapter(folder: str | Path, encoder: Encoder, residual: ResiDual, replace: bool = False) -> Path:
    """Write the three files of an adapter that is sound. A kill at any moment leaves the old adapter or the new one.

    Where there is one already, ``replace`` it or be refused; whatever else lies in the folder stays.
    """
    folder = Path(folder)
    check_free(folder, replace)
    check_residual(residual, encoder, "this adapter cannot be saved")
    tensors = {f"{i}.{k}": getattr(s, k).contiguous() for i, s in enumerate(residual.sets) for k in TENSORS}
    config = {
        "peft_type": "RESIDUAL",
        "base_model_name_or_path": encoder.name,
        "base": base_of(encoder),
        "mean": residual.mean,
        "places": [_written_place(s, encoder) for s in residual.sets],
        "trained_parameters": residual.trained,
        "notes": residual.notes,
    }
    if (folder / CONFIG).exists():
        (folder / EARLIER).unlink(missing_ok=True)
        os.link(folder / WEIGHTS, folder / EARLIER)  # what the old config belongs to, until the new one is there
    with drafted(folder / WEIGHTS) as path:
        save_file(tensors, path)
        config[DIGEST] = _digest(path)
    with drafted(folder / CONFIG) as path:
        path.write_text(json.dumps(config, indent=2, default=str) + "\n")
    with drafted(folder / CARD) as path:
        path.write_text(adapter_card(encoder, residual))
    (folder / EARLIER).unlink(missing_ok=True)
    return folder


def _written_place(gains: GainSet, encoder: Encoder) -> dict[str, Any]:
    """What is not in its tensors; ``modules`` are the layers that it changes, by which PEFT finds them."""
    rules = {"form": gains.form, "truncated": gains.truncated, "tau": gains.tau}
    return {**asdict(gains.place), **rules, "modules": modules_of(gains.place, encoder)}


def check_free(folder: Path, replace: bool = False) -> None:
    """Refuse a place that holds an adapter (unless it may be replaced) or anything else; told before anything is learned."""
    if folder.exists() and not folder.is_dir():
        raise AdapterError(f"{folder} is a file; choose another --out")
    if (folder / CONFIG).exists() and not replace:
        raise AdapterError(f"{folder} holds an adapter already; choose another --out, or let it be replaced (--replace)")
    left = {p.name for p in folder.iterdir()} - {WEIGHTS} if folder.exists() else set()  # a kill may have left new weights alone
    if left and not (folder / CONFIG).exists():
        raise AdapterError(f"{folder} is not empty and holds no adapter; choose another --out")


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def weights_of(folder: Path, config: dict[str, Any]) -> Path:
    """The weights that the config was written with; those of before, where a kill came between the two."""
    expected = config.get(DIGEST)
    for path in (folder / WEIGHTS, folder / EARLIER):
        if path.is_file() and expected in (None, _digest(path)):
            return path
    raise AdapterError(f"{folder}: {WEIGHTS} is not what {CONFIG} was written with (damaged or replaced); get or make it again")


def _folder(source: str | Path) -> Path:
    """A directory, or a hub repository (``REPO`` or, pinned, ``REPO@COMMIT``) fetched through huggingface_hub."""
    if Path(source).is_dir():
        return Path(source)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        name, revision = split_revision(str(source))
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(ADAPTER)))
    except (HFValidationError, LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        raise AdapterError(
            f"{source}: neither a directory nor a hub repository that can be reached ({str(error).splitlines()[0]})"
        ) from error


def read_config(folder: Path) -> dict[str, Any]:
    """The config of an adapter of ours."""
    try:
        config = json.loads((folder / CONFIG).read_text())
    except ValueError as error:
        raise AdapterError(f"{folder / CONFIG}: is not JSON ({error})") from error
    kind = config.get("peft_type") if isinstance(config, dict) else config
    if kind != "RESIDUAL":
        raise AdapterError(f"{folder}: an adapter of type {kind}, not ResiDual's")
    return dict(config)


def load_adapter(source: str | Path, encoder: Encoder) -> ResiDual:
    """Read an adapter for ``encoder``; one that was made for another base is refused with the reason."""
    folder = _folder(source)
    if not (folder / CONFIG).is_file() or not (folder / WEIGHTS).is_file():
        raise AdapterError(f"{folder}: no {CONFIG} and {WEIGHTS}; expected a directory written by `residual-audio adapt`")
    config = read_config(folder)
    if isinstance(config.get("places"), list):
        config["places"] = [with_blocks(place, encoder, folder) for place in config["places"]]
    check_schema(config, folder)
    check_base(config["base"], encoder, folder)
    try:
        tensors = load_file(weights_of(folder, config))
    except SafetensorError as error:
        raise AdapterError(f"{folder / WEIGHTS}: cannot be read ({error})") from error
    places = config["places"]
    check_tensors(tensors, len(places), folder)
    sets = tuple(_read_set(place, {k: tensors.get(f"{i}.{k}") for k in (*TENSORS, "gain")}) for i, place in enumerate(places))
    residual = ResiDual(sets, config["mean"], config["notes"])
    check_residual(residual, encoder, folder)
    return residual


def check_base(made: dict[str, Any] | None, encoder: Encoder, where: object) -> None:
    """Refuse an adapter of another base. One that PEFT learned on a plain model records none: its layers and shapes have to fit."""
    if made is None:
        return
    here = json.loads(json.dumps(base_of(encoder)))
    wrong = [f"{key}: {made[key]} there, {here[key]} here" for key in ("revision", "preprocessing_hash", "units") if made[key] != here[key]]
    if wrong:
        window = "; was it made with other --seconds, --crop or --pad? Give the same here" if made["revision"] == here["revision"] else ""
        raise AdapterError(f"{where} was made for {made['name']}, not for {encoder.name} as it is here{window}:\n  " + "\n  ".join(wrong))


def _read_set(place: dict[str, Any], tensors: dict[str, Any]) -> GainSet:
    """One place of an adapter. Those from before there were forms have gains, one per axis or a single one, and ``form`` names the kind."""
    gain = tensors.pop("gain")
    if "kind" not in place:
        tensors["values"] = gain
        place = {**place, "kind": place["form"], "form": "gains" if gain.shape[1] == tensors["axes"].shape[1] else "scalar"}
    where = Place(place["kind"], tuple(tuple(b) for b in place["blocks"]), tuple(place["heads"]))
    return GainSet(where, **tensors, form=place["form"], truncated=place.get("truncated", False), tau=place.get("tau", 1.0))
