"""What a search tries: subsets of stages, products of values, ranges. Any simple field of the recipe and of its training can vary."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations, product
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ..adaptation.task import Recipe
from ..adaptation.train import Training
from ..evaluation import EvaluationError
from ..units import UnitTable

# Blocks of an encoder with one stage are combined only up to this many: 2^n − 1 trainings.
MOST_BLOCKS = 4
SIMPLE = (int, float, str, bool)


@dataclass(frozen=True)
class Trial:
    """One recipe to be tried. ``chosen``: what sets it apart; ``name``: its folder."""

    name: str
    recipe: Recipe
    chosen: dict[str, Any]


@dataclass(frozen=True)
class Range:
    """From ``low`` to ``high``, both included; on a logarithmic scale where that is asked for."""

    low: float
    high: float
    log: bool = False
    whole: bool = False


def kinds_of(hint: Any) -> tuple[list[type], tuple[Any, ...], bool]:
    """Of a field's annotation: the simple types it takes, the words it is limited to, and whether it may be None."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    words = tuple(w for p in parts if get_origin(p) is Literal for w in get_args(p))
    return [p for p in parts if p in SIMPLE] + ([str] if words else []), words, type(None) in parts


def searchable() -> dict[str, Any]:
    """The fields that can vary, with their annotations."""
    found = {f.name: get_type_hints(Training)[f.name] for f in fields(Training) if f.name != "seed"}
    found |= {f.name: get_type_hints(Recipe)[f.name] for f in fields(Recipe) if f.name != "training"}
    return {name: hint for name, hint in found.items() if kinds_of(hint)[0]}


def parse_value(key: str, text: str) -> Any:
    """A value of one field from its text, by the field's own annotation; ``none`` where it may be left out."""
    kinds, words, optional = kinds_of(searchable()[key])
    if optional and text.lower() == "none":
        return None
    if words and text not in words:
        raise EvaluationError(f"{key}: {text!r} is none of {', '.join(map(str, words))}")
    if bool in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        if kind in kinds:
            try:
                value = kind(text)
            except ValueError:
                continue
            if math.isfinite(value):
                # As on the command line, a rate of zero means: look for one.
                return None if key == "rate" and value == 0 else value
    if str in kinds:
        return text
    raise EvaluationError(f"{key}: {text!r} is not a value of it ({' or '.join(k.__name__ for k in kinds)} expected)")


def split_settings(settings: Sequence[str]) -> dict[str, list[str]]:
    """``["rate=0.1,1"]`` → ``{"rate": ["0.1", "1"]}``; a key may be given once."""
    known, found = searchable(), dict[str, list[str]]()
    for setting in settings:
        key, equals, rest = setting.partition("=")
        key, values = key.strip(), list(dict.fromkeys(v.strip() for v in rest.split(",") if v.strip()))
        if not equals or not values:
            raise EvaluationError(f"--set {setting!r}: expected KEY=VALUE,VALUE,…, as in rate=0.02,0.1")
        if key not in known:
            raise EvaluationError(f"--set {setting!r}: {key!r} cannot vary; one of {', '.join(known)}")
        if key in found:
            raise EvaluationError(f"--set: {key} is given twice; put all of its values into one")
        found[key] = values
    if not found:
        raise EvaluationError('nothing varies; say what, as in --set rate=0.02,0.1,0.5 --set "units=S3 heads,S2 S3 heads"')
    return found


def parse_space(settings: Sequence[str]) -> dict[str, Range | list[Any]]:
    """Ranges ``LOW:HIGH[:log]`` and lists of values, by key. A range of two whole numbers is whole where the field can be."""
    return {key: _range(key, words[0]) if _is_range(words) else [parse_value(key, w) for w in words]
            for key, words in split_settings(settings).items()}  # fmt: skip


def _is_range(words: Sequence[str]) -> bool:
    return len(words) == 1 and ":" in words[0]


def _range(key: str, text: str) -> Range:
    low_text, high_text, *scale = text.split(":")
    low, high = parse_value(key, low_text), parse_value(key, high_text)
    if isinstance(low, str | bool) or isinstance(high, str | bool) or low is None or high is None:
        raise EvaluationError(f"{key}={text}: only numbers have ranges; list the values instead")
    if scale not in ([], ["log"]) or not low < high or (scale and low <= 0):
        raise EvaluationError(f"{key}={text}: expected LOW:HIGH or LOW:HIGH:log with LOW < HIGH (and above zero for log)")
    return Range(low, high, bool(scale), isinstance(low, int) and isinstance(high, int))


def with_choices(recipe: Recipe, chosen: Mapping[str, Any]) -> Recipe:
    """The recipe with some of its fields, or of its training's, changed; its own checks apply."""
    own = {f.name for f in fields(Recipe)} - {"training"}
    training = replace(recipe.training, **{k: v for k, v in chosen.items() if k not in own})
    return replace(recipe, training=training, **{k: v for k, v in chosen.items() if k in own})


def grid_trials(recipe: Recipe, values: Mapping[str, Sequence[Any]]) -> list[Trial]:
    """Every combination of the values; the last key varies fastest."""
    trials = []
    for picked in product(*values.values()):
        chosen = dict(zip(values, picked, strict=True))
        name = ",".join(f"{k}={v}" for k, v in chosen.items()).replace(" ", "_").replace("/", "_")
        trials.append(Trial(name, with_choices(recipe, chosen), chosen))
    return trials


def stage_trials(units: UnitTable, recipe: Recipe, form: str = "heads") -> list[Trial]:
    """All 2^n − 1 non-empty subsets of n stages, small ones first; of blocks, where there is one stage with at most four.

    ``form``: what is reweighted in them: heads, blocks, stages or mlps.
    """
    if form not in ("heads", "blocks", "stages", "mlps"):
        raise EvaluationError(f"unknown form {form!r}; one of heads, blocks, stages, mlps")
    places = [f"S{s}" for s in range(len(units.heads))]
    if len(places) == 1:
        places = [f"S0B{b}" for b in range(len(units.heads[0]))]
        if form == "stages":
            raise EvaluationError("this encoder has one stage: subsets of its blocks can be heads, blocks or mlps, not stages")
        if len(places) > MOST_BLOCKS:
            raise EvaluationError(
                f"this encoder has one stage of {len(places)} blocks, which make {2 ** len(places) - 1} subsets; name those that you want: "
                '--space grid --set "units=S0B0 heads,S0B0 S0B1 heads"'
            )
    subsets = [group for size in range(1, len(places) + 1) for group in combinations(places, size)]
    trials = []
    for group in subsets:
        selection = f"{' '.join(group)} {form}"
        trials.append(Trial("+".join(group), replace(recipe, units=selection), {"units": selection, "size": len(group)}))
    return trials
