"""How much of its units' spectrum a task needs: accuracy with only k axes per unit retained, and nothing trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch

from ..data import Dataset
from ..evaluation import EvaluationError, choose_classifier
from ..evaluation.folds import fold_parts
from ..evaluation.metrics import outcome
from ..evaluation.significance import mean_interval
from ..models import Encoder
from ..progress import progress
from ..results import Result, provenance
from ..spectra import Basis
from .defaults import UNITS
from .gain import ResiDual, Shape, gain_set, random_basis
from .learner import GainLearner
from .options import check_axes
from .prepare import prepare
from .recipe import Recipe
from .select import Place, choose_places
from .streams import place_bases
from .task import FoldTask

KINDS = ("principal", "random")


@dataclass(frozen=True)
class Retention(Result):
    """``retention``: one row per kind of axes (principal, random) and number retained, with the share of variance that they hold."""

    record: ClassVar[str] = "retention"
    tables: dict[str, pd.DataFrame]
    info: dict[str, Any]
    errors: dict[str, str]

    @property
    def curve(self) -> pd.DataFrame:
        return self.tables["retention"]


def parse_retained(text: str) -> list[int | float]:
    """``"1,2,0.9"``: numbers of axes and shares of the variance."""
    found: list[int | float] = []
    for word in (w.strip() for w in text.split(",") if w.strip()):
        try:
            number: int | float = int(word) if word.isdigit() else float(word)
        except ValueError as error:
            raise EvaluationError(f"--retain: {word!r} is neither a number of axes nor a share, as in 1,2,4,8 or 0.5,0.9") from error
        check_axes("--retain", number)
        found.append(number)
    return found


def doubling(widest: int) -> list[int | float]:
    """1, 2, 4, … and all."""
    return [*(2**i for i in range(widest.bit_length()) if 2**i < widest), widest]


def retained(places: Sequence[Place], bases: Sequence[Basis], number: int | float) -> tuple[ResiDual, float]:
    """The units cut down to their leading axes, and the share of their variance that these hold, on average over units."""
    cut = ResiDual(tuple(gain_set(p, b, Shape(retain=number)) for p, b in zip(places, bases, strict=True)))
    shares = [s.variance.sum(-1) / b.variance.sum(-1).clamp_min(1e-30) for s, b in zip(cut.sets, bases, strict=True)]
    return cut, float(torch.cat(shares).mean())


def retention(
    encoder: Encoder,
    dataset: Dataset,
    units: str = UNITS,
    numbers: Sequence[int | float] = (),
    *,
    level: str = "token",
    classifier: str = "auto",
    folds: str = "official",
    template: str | None = None,
    seed: int = 0,
    workers: int | None = None,
    advance: Callable[[int], object] | None = None,
) -> Retention:
    """Truncate the chosen units to their first k principal axes, as in the paper, and to k random ones; the rest of a unit is its mean.

    Axes come from the clips outside each test fold, and every clip is tested once. ``numbers``: of axes, or shares of the variance
    (default: 1, 2, 4, … all). A share keeps so many axes that every unit of a block has it.
    """
    recipe = Recipe(units=units)
    chosen = choose_classifier(classifier, encoder, template)
    setting = prepare(encoder, dataset, ["residual"], recipe, folds=folds, template=template, seed=seed, workers=workers, advance=advance)
    places, targets = choose_places(encoder.units, units), torch.from_numpy(setting.dataset.targets)
    correct: dict[tuple[str, int | float], np.ndarray] = {}
    shares: dict[tuple[str, int | float], list[float]] = {}
    folds_of = list(fold_parts(setting.dataset, seed))
    with progress("folds", len(folds_of)) as done:
        for _, parts in folds_of:
            task = FoldTask(setting, targets, parts, seed)
            bases = place_bases(setting.streams, parts.seen, places, level)  # type: ignore[arg-type]
            others = [random_basis(b, 1000 * seed + i) for i, b in enumerate(bases)]
            for kind, basis in zip(KINDS, (bases, others), strict=True):
                for number in numbers or doubling(max(b.axes.shape[1] for b in bases)):
                    cut, share = retained(places, basis, number)
                    scores = task.scores(GainLearner(cut, setting.streams).embed(setting.rows).cpu(), chosen)
                    right = outcome(scores.numpy(), setting.dataset.targets[parts.test]).correct
                    correct.setdefault((kind, number), np.zeros(len(targets)))[parts.test] = right
                    shares.setdefault((kind, number), []).append(share)
            done(1)
    rows = []
    for (kind, number), right in correct.items():
        interval = mean_interval(right, setting.dataset.groups, seed=seed)
        rows.append({"axes": kind, "retain": number, "share": float(np.mean(shares[kind, number])), **interval_columns(interval)})
    settings = {"units": units, "level": level, "classifier": chosen.name, "folds": folds, "template": template, "seed": seed}
    return Retention({"retention": pd.DataFrame(rows)}, {**provenance(encoder, dataset), "settings": settings}, setting.errors)


def interval_columns(interval: Any) -> dict[str, float]:
    return {"accuracy": interval.value, "low": interval.low, "high": interval.high}
