"""What a search tries: subsets of stages, products of values, ranges. Any option of the searched method can vary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from ..adaptation.methods import METHODS
from ..adaptation.recipe import Recipe
from ..evaluation import EvaluationError
from ..options import OptionSpec, option_specs
from ..units import UnitTable

# Blocks of an encoder with one stage are combined only up to this many: 2^n − 1 trainings.
MOST_BLOCKS = 4


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


def split_settings(settings: Sequence[str], known: Mapping[str, OptionSpec]) -> dict[str, list[str]]:
    """``["rate=0.1,1"]`` → ``{"rate": ["0.1", "1"]}``; a key may be given once."""
    split: dict[str, list[str]] = {}
    for setting in settings:
        key, equals, rest = setting.partition("=")
        key, values = key.strip().replace("-", "_"), list(dict.fromkeys(v.strip() for v in rest.split(",") if v.strip()))
        if not equals or not values:
            raise EvaluationError(f"--set {setting!r}: expected KEY=VALUE,VALUE,…, as in rate=0.02,0.1")
        if key not in known:
            raise EvaluationError(f"--set {setting!r}: {key!r} cannot vary; one of {', '.join(known)}")
        if key in split:
            raise EvaluationError(f"--set: {key} is given twice; put all of its values into one")
        split[key] = values
    if not split:
        raise EvaluationError('nothing varies; say what, as in --set rate=0.02,0.1,0.5 --set "units=S3 heads,S2 S3 heads"')
    return split


def parse_space(settings: Sequence[str], method: str = "residual") -> dict[str, Range | list[Any]]:
    """Ranges ``LOW:HIGH[:log]`` and lists of values, by key. A range of two whole numbers is whole where the option can be."""
    known = option_specs(METHODS[method].options)
    space: dict[str, Range | list[Any]] = {}
    for key, words in split_settings(settings, known).items():
        if len(words) == 1 and ":" in words[0]:
            space[key] = _range(known[key], words[0])
        else:
            values = [known[key].parse(w) for w in words]
            for value in values:
                known[key].check(value)
            space[key] = values
    return space


def _range(spec: OptionSpec, text: str) -> Range:
    low_text, high_text, *scale = text.split(":")
    low, high = spec.parse(low_text), spec.parse(high_text)
    if isinstance(low, str | bool) or isinstance(high, str | bool) or low is None or high is None:
        raise EvaluationError(f"{spec.name}={text}: only numbers have ranges; list the values instead")
    if scale not in ([], ["log"]) or not low < high or (scale and low <= 0):
        raise EvaluationError(f"{spec.name}={text}: expected LOW:HIGH or LOW:HIGH:log with LOW < HIGH (and above zero for log)")
    return Range(low, high, bool(scale), isinstance(low, int) and isinstance(high, int))


def grid_trials(recipe: Recipe, values: Mapping[str, Sequence[Any]]) -> list[Trial]:
    """Every combination of the values; the last key varies fastest."""
    trials = []
    for picked in product(*values.values()):
        chosen = dict(zip(values, picked, strict=True))
        name = ",".join(f"{k}={v}" for k, v in chosen.items()).replace(" ", "_").replace("/", "_")
        trials.append(Trial(name, recipe.changed(**chosen), chosen))
    return trials


def stage_trials(units: UnitTable, recipe: Recipe, kind: str = "heads") -> list[Trial]:
    """All 2^n − 1 non-empty subsets of n stages, small ones first; of blocks, where there is one stage with at most four.

    ``kind``: what is reweighted in them: heads, blocks, stages or mlps.
    """
    if kind not in ("heads", "blocks", "stages", "mlps"):
        raise EvaluationError(f"unknown kind {kind!r}; one of heads, blocks, stages, mlps")
    places = [f"S{s}" for s in range(len(units.heads))]
    if len(places) == 1:
        places = [f"S0B{b}" for b in range(len(units.heads[0]))]
        if kind == "stages":
            raise EvaluationError("this encoder has one stage: subsets of its blocks can be heads, blocks or mlps, not stages")
        if len(places) > MOST_BLOCKS:
            raise EvaluationError(
                f"this encoder has one stage of {len(places)} blocks, which make {2 ** len(places) - 1} subsets; name those that you want: "
                '--space grid --set "units=S0B0 heads,S0B0 S0B1 heads"'
            )
    subsets = [group for size in range(1, len(places) + 1) for group in combinations(places, size)]
    trials = []
    for group in subsets:
        selection = f"{' '.join(group)} {kind}"
        trials.append(Trial("+".join(group), recipe.changed(units=selection), {"units": selection, "size": len(group)}))
    return trials
