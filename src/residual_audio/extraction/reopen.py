"""A run opens its own encoder again, from what its folder holds: how it was loaded, its revision, its preprocessing and some weights.

What comes back does what the run's encoder did, or there is an error that says what differs and what to do.
"""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..audio import Preprocessing
from ..models import Encoder, EncoderError, Loaded, Loading, load_encoder
from ..models.files import split_revision
from ..models.opening import address_of, recognise, revision_here
from ..models.registry import ENCODERS

PROBE = "probe"
COMMIT = re.compile("[0-9a-f]{40}")  # of a hub repository
# How far the embedding of the probe may be from the run's: kinds of hardware differ by rounding, other weights by far more.
TOLERANCE = {"float32": 2e-3, "bf16": 2e-2, "int8": 2e-2}
FOLDED = "+residual"
SAVE = "save what was changed with encoder.save(FOLDER), or `residual-audio fold`, and extract from that folder"


def differences(old: dict[str, Any], new: dict[str, Any], path: str = "") -> list[str]:
    """Where two records differ, as ``settings.batch_size: 16 → 8``."""
    changed = []
    for key in sorted(set(old) | set(new)):
        a, b = old.get(key), new.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            changed += differences(a, b, f"{path}{key}.")
        elif a != b and not (isinstance(b, tuple) and a == list(b)):
            changed.append(f"{path}{key}: {a} → {b}")
    return changed


def loading_record(encoder: Encoder) -> dict[str, Any] | None:
    """How to open the encoder again; None where nobody can, because it was changed in memory or not made by ``load_encoder``."""
    if encoder.loading is None:
        return None
    return {**encoder.loading.record(), "dtype": str(encoder.dtype).removeprefix("torch.")}


def kept_weights(encoder: Encoder) -> dict[str, Tensor]:
    """The weights from which contributions and joint shares are derived, and the embedding of the probe."""
    tensors: dict[str, Tensor] = {PROBE: encoder.probe()}
    for site in encoder.sites:
        projection = encoder.linear(site.projection)
        tensors[f"projection.{site.stage}.{site.block}.weight"] = projection.weight
        tensors[f"projection.{site.stage}.{site.block}.bias"] = projection.bias
    joint = encoder.readout.joint_weights()
    if joint is not None:
        named = {"first": joint.first, "second": joint.second, "first_bias": joint.first_bias, "second_bias": joint.second_bias}
        tensors |= {f"joint.{k}": v for k, v in named.items() if v is not None}
        if joint.norm is not None:
            eps = joint.norm.weight.new_tensor(joint.norm.eps)
            tensors |= {"joint.norm.weight": joint.norm.weight, "joint.norm.bias": joint.norm.bias, "joint.norm.eps": eps}
    return {k: v.detach().clone() for k, v in tensors.items()}


def reopen(info: dict[str, Any], weights: dict[str, Tensor], device: str) -> Encoder:
    """The encoder of the run with this ``run.json`` and these kept weights."""
    if "loading" in info and info["loading"] is None:
        raise EncoderError(f"{info['model']['name']} was changed in memory and not saved, so the run cannot open it again; {SAVE}")
    loaded = Loaded.of(info["loading"]) if "loading" in info else _loaded_before(info)
    encoder = load_encoder(
        _pinned_place(loaded, info), device, seconds=loaded.options.seconds, fast=loaded.options.fast, precision=precision_of(info)
    )
    policy = info["preprocessing"]
    if isinstance(encoder.policy, Preprocessing):
        encoder.policy = replace(encoder.policy, crop=policy["crop"], pad=policy["pad"])
    encoder.module.to(getattr(torch, info.get("loading", {}).get("dtype", "float32")))
    encoder.name, encoder.loading = info["model"]["name"], loaded
    _check(encoder, info, weights)
    return encoder


def precision_of(info: dict[str, Any]) -> str:
    """The precision of a run's products; earlier runs, which do not say, knew only one."""
    return str(info.get("precision", "float32"))


def _loaded_before(info: dict[str, Any]) -> Loaded:
    """Of runs that do not say how their encoder was loaded: their preprocessing tells."""
    name, policy = info["model"]["name"], info["preprocessing"]
    if name.endswith(FOLDED):
        raise EncoderError(f"the run was made with {name}, gains folded in memory and not saved; {SAVE}")
    kind = recognise(_place(Loaded(name, name)))
    seconds = policy["samples"] / policy["sample_rate"] if kind.window else None
    lengths = {"crop": policy["crop"], "pad": policy["pad"]} if kind.media == "sounds" else {}
    return Loaded(name, address_of(name), Loading(seconds=seconds, **lengths))


def _place(loaded: Loaded) -> str:
    """Where the checkpoint is now: a name, a path that exists, or an error that says what to do."""
    # A project that moved as a whole still has its checkpoint where it was, seen from the working folder.
    for source in (loaded.address, loaded.source):
        if not _is_path(source) or Path(source).expanduser().exists():
            return source
    raise EncoderError(
        f"the run was made with the checkpoint {loaded.address}, which is not there (any more); put it back (a link will do), "
        "open it yourself and pass it as encoder=, or extract again"
    )


def _pinned_place(loaded: Loaded, info: dict[str, Any]) -> str:
    """The place, at the revision that the run recorded; a path with other weights is not even opened: the run may be a stranger's."""
    place, then = _place(loaded), info["model"]["revision"]
    own = any(split_revision(place)[0] in kind.own_names for kind in ENCODERS.values())
    if not own and (here := revision_here(place)) is not None:
        _same_revision(info["model"]["name"], here, then)
        return place
    return f"{split_revision(place)[0]}@{then}" if COMMIT.fullmatch(then) else place


def _same_revision(name: str, here: str, then: str) -> None:
    if here != then:
        raise EncoderError(
            f"{name} is revision {here} here, and {then} where the run was made; put the same checkpoint here, or extract again"
        )


def _is_path(source: str) -> bool:
    """Whether it can only be a path: a hub repository has one stroke."""
    return Path(source).expanduser().is_absolute() or source.startswith(".") or source.count("/") > 1


def _check(encoder: Encoder, info: dict[str, Any], weights: dict[str, Tensor]) -> None:
    """Same revision, same preprocessing, same weights; or an error that says which differ."""
    name = encoder.name
    _same_revision(name, encoder.revision, info["model"]["revision"])
    policy = info["preprocessing"]
    if encoder.policy.hash != policy["hash"]:
        changed = differences({k: v for k, v in policy.items() if k != "hash"}, asdict(encoder.policy))
        raise EncoderError(
            f"{name} prepares its clips otherwise here than when the run was made ({'; '.join(changed) or 'another version'}); "
            "restore the checkpoint's preprocessor file, or extract again"
        )
    here = kept_weights(encoder)
    same = all(torch.equal(value, here[key].to(value)) for key, value in weights.items() if key != PROBE and key in here)
    if not same or (PROBE in weights and float((weights[PROBE] - here[PROBE]).norm()) > TOLERANCE[encoder.precision]):
        raise EncoderError(
            f"{name} as it lies on disk does not do what the run's encoder did: that was changed in memory after it was opened; {SAVE}"
        )
