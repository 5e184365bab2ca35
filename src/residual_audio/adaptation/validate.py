"""An adapter is what it says, or it is refused: before anything of it is used, and before anything is saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import torch
from torch import Tensor

from ..models import Encoder
from ..options import OptionError
from .forms import FORMS
from .gain import TENSORS, GainSet, MeanRule, ResiDual
from .select import PlaceKind

# How far the axes of a basis may be from orthonormal: those that were rounded to float32 are within 1e-5.
TOLERANCE = 1e-3
BASE = {"name": str, "revision": str, "preprocessing_hash": str, "units": dict}
SCHEMA = {"mean": str, "places": list, "notes": dict}
PLACE = {"blocks": list, "heads": list, "form": str}


class AdapterError(ValueError):
    """An adapter that cannot be written, read or used with this encoder; the message says why."""


def check_schema(config: Any, where: object) -> None:
    """The config has what an adapter's has, of the right types, and no unknown words."""
    made_by_peft = "base" in config and config["base"] is None
    _has(config, SCHEMA if made_by_peft else {"base": dict, **SCHEMA}, f"{where}: its config")
    if not made_by_peft:
        _has(config["base"], BASE, f"{where}: its base")
    if config["mean"] not in get_args(MeanRule):
        raise AdapterError(f"{where}: its mean is {config['mean']!r}; one of {', '.join(get_args(MeanRule))}")
    for i, place in enumerate(config["places"]):
        _has(place, PLACE, f"{where}: place {i}")
        kind = place.get("kind", place["form"])  # adapters from before there were forms have their kind there
        if kind not in get_args(PlaceKind):
            raise AdapterError(f"{where}: place {i} is of the unknown kind {kind!r}; one of {', '.join(get_args(PlaceKind))}")
        whole = [*place["heads"], *(number for block in place["blocks"] for number in (block if isinstance(block, list) else [None]))]
        if not all(isinstance(number, int) and not isinstance(number, bool) for number in whole):
            raise AdapterError(f"{where}: the heads and blocks of place {i} have to be whole numbers")


def _has(record: Any, schema: Mapping[str, type], where: str) -> None:
    if not isinstance(record, dict):
        raise AdapterError(f"{where} is {type(record).__name__}, not a table of names and values")
    if wrong := [f"{key} ({kind.__name__})" for key, kind in schema.items() if not isinstance(record.get(key), kind)]:
        raise AdapterError(f"{where} lacks {', '.join(wrong)}, or has it of another type")


def check_tensors(tensors: Mapping[str, Tensor], places: int, where: object) -> None:
    """Every place has its tensors, of shapes that fit each other, and there are no others; ``values`` were once called ``gain``."""
    names = set(tensors)
    wanted = {f"{i}.{k}" for i in range(places) for k in TENSORS}
    known = {name.replace(".gain", ".values") for name in names}
    if known != wanted or len(known) != len(names):
        odd = sorted(known ^ wanted) or sorted(names)
        raise AdapterError(f"{where}: its tensors are not those of {places} places: {', '.join(odd[:3])}")
    for i in range(places):
        axes, mean, variance = (tensors[f"{i}.{k}"] for k in TENSORS[:3])
        values = tensors.get(f"{i}.values", tensors.get(f"{i}.gain"))
        floating = all(t is not None and t.is_floating_point() for t in (axes, mean, variance, values))
        if not floating or axes.ndim != 3 or mean.shape != axes.shape[::2] or variance.shape != axes.shape[:2]:
            raise AdapterError(f"{where}: the axes, means and variances of place {i} do not fit each other")
        if values is None or values.ndim != 2 or len(values) != len(axes):
            raise AdapterError(f"{where}: the values of place {i} do not fit its {len(axes)} units")


def check_residual(residual: ResiDual, encoder: Encoder, where: object) -> None:
    """Places that the encoder has, numbers that are numbers, shapes that fit each other, axes that are orthonormal."""
    for gains in residual.sets:
        problem = _place_problem(gains, encoder) or tensor_problem(gains)
        if problem:
            raise AdapterError(f"{where}: {gains.place.kind} {gains.place.blocks}: {problem}")


def _place_problem(gains: GainSet, encoder: Encoder) -> str:
    place, heads = gains.place, {site.key: site.heads for site in encoder.sites}
    if absent := [block for block in place.blocks if block not in heads]:
        return f"{encoder.name} has no block {absent[0]}"
    if bool(place.blocks) == (place.kind == "embedding") or bool(place.heads) != (place.kind == "heads"):
        return "its blocks and heads do not belong to its kind"
    if len(set(place.heads)) < len(place.heads) or any(not 0 <= h < heads[b] for b in place.blocks for h in place.heads):
        return f"no such heads: {place.heads}"
    width = encoder.dim if place.kind == "embedding" else encoder.units.d_model[place.blocks[0][0]]
    expected = width // heads[place.blocks[0]] if place.kind == "heads" else width
    found = gains.axes.shape[-1]
    return "" if found == expected or place.kind == "embedding" else f"its axes have {found} channels, and the encoder {expected}"


def tensor_problem(gains: GainSet) -> str:
    try:
        form = FORMS[gains.form]
    except OptionError as error:
        return str(error)
    units, k, d = gains.axes.shape
    shapes = {"mean": (units, d), "variance": (units, k), "values": (units, form.count(k))}
    if units != max(1, len(gains.place.heads)):
        return f"{units} bases for {max(1, len(gains.place.heads))} units"
    for name, shape in shapes.items():
        if tuple(getattr(gains, name).shape) != shape:
            return f"{name} has the shape {tuple(getattr(gains, name).shape)}, not {shape}"
    if broken := [name for name in TENSORS if not bool(torch.isfinite(getattr(gains, name)).all())]:
        return f"{', '.join(broken)} hold NaN or infinite numbers"
    if not (isinstance(gains.tau, int | float) and 0 <= gains.tau <= 1 and isinstance(gains.truncated, bool)):
        return f"a strength of {gains.tau}, truncated {gains.truncated}"
    axes = gains.axes.double()
    away = float((axes @ axes.mT - torch.eye(k, dtype=axes.dtype, device=axes.device)).abs().max()) if k else 0.0
    return f"its axes are not orthonormal (off by {away:.2g})" if away > TOLERANCE else ""
