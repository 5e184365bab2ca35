"""Checks of signs, orders and trends on the rows of a target: whether they hold, and the figures that say so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

Verdict = tuple[bool, str]
HTSAT_BORDERS = (2, 4, 10)  # the first blocks of the later stages, counted through all


class NotAsked(Exception):
    """The table has not what the finding speaks of, such as several stages."""


@dataclass(frozen=True)
class Figures:
    """The figures of one table by one protocol. ``borders``: the first blocks of the later stages, counted through all."""

    table: pd.DataFrame
    borders: tuple[int, ...] = HTSAT_BORDERS

    def along(self, level: str, measure: str, value: str = "value", least: int = 2) -> np.ndarray:
        """Of stages or blocks in their order."""
        rows = self.table[(self.table.level == level) & (self.table.measure == measure)]
        rows = rows.assign(place=pd.to_numeric(rows["index"])).dropna(subset=[value]).sort_values("place")
        if len(rows) < least:
            raise NotAsked(f"fewer than {least} {level}s")
        return rows[value].to_numpy(float)

    def one(self, measure: str, index: str = "all") -> float:
        rows = self.table[(self.table.measure == measure) & (self.table["index"] == index)].value.dropna()
        if not len(rows):
            raise NotAsked(f"no {measure} of {index}")
        return float(rows.iloc[0])

    def by_index(self, measure: str, start: str) -> pd.Series:
        """Of the methods whose names start so, in their order."""
        rows = self.table[(self.table.measure == measure) & self.table["index"].str.match(start)]
        found = rows.set_index("index").value.dropna()
        if len(found) < 2:
            raise NotAsked("fewer than two sets of stages")
        return found


def arrows(values: np.ndarray, digits: int = 1) -> str:
    return " → ".join(f"{v:.{digits}f}" for v in values)


def rises(measure: str, level: str = "stage", sign: int = 1, digits: int = 1) -> Callable[[Figures], Verdict]:
    """Step by step, without exception."""

    def check(figures: Figures) -> Verdict:
        values = figures.along(level, measure)
        return bool((sign * np.diff(values) > 0).all()), arrows(values, digits)

    return check


def ratio_rises(figures: Figures) -> Verdict:
    values = figures.along("stage", "pca_99") / figures.along("stage", "twonn")
    return bool(values[-1] > values[0]), arrows(values, 2)


def saturates(figures: Figures) -> Verdict:
    steps = np.diff(figures.along("stage", "pca_99", least=3))
    return bool(abs(steps[-1]) == np.abs(steps).min()), "steps " + ", ".join(f"{s:+.1f}" for s in steps)


def evens_out(figures: Figures) -> Verdict:
    """The coefficient of variation over heads: second stage against last."""
    variation = figures.along("stage", "pca_99", "std", 3) / figures.along("stage", "pca_99", least=3)
    return bool(variation[-1] < variation[1]), f"CV {variation[1]:.2f} in stage 1, {variation[-1]:.2f} in the last"


def jumps_at_border(figures: Figures) -> Verdict:
    if not figures.borders:
        raise NotAsked("one stage")
    steps = np.diff(figures.along("block", "pca_99", least=3))
    first = figures.borders[0]
    return bool(
        steps[first - 1] >= steps.max() - 1e-9
    ), f"{steps[first - 1]:+.2f} there, at most {np.delete(steps, first - 1).max():+.2f} elsewhere"


def falls_at_the_end(figures: Figures) -> Verdict:
    values = figures.along("block", "pca_99")
    return bool(values[-1] < values[-2]), arrows(values[-2:], 2)


def hunchback(figures: Figures) -> Verdict:
    values = figures.along("block", "twonn", least=3)
    peak = int(values.argmax())
    return 0 < peak < len(values) - 1, f"peak in block {peak} of {len(values)}"


def ratio_rises_by_block(figures: Figures) -> Verdict:
    values = figures.along("block", "l_n", least=3)
    trend = float(pd.Series(values).corr(pd.Series(range(len(values))), method="spearman"))
    return trend > 0, f"ρ with depth {trend:+.2f}"


def above(measure: str, least: float, digits: int = 2) -> Callable[[Figures], Verdict]:
    def check(figures: Figures) -> Verdict:
        value = figures.one(measure)
        return value > least, f"{value:.{digits}f}"

    return check


def within_above_between(figures: Figures) -> Verdict:
    within, between = figures.one("similarity_within"), figures.one("similarity_between")
    return within > between, f"{within:.3f} within, {between:.3f} between"


def first_block_matters_most(figures: Figures) -> Verdict:
    drops = figures.along("block", "accuracy_drop")
    return bool(drops[0] == drops.max() and drops[0] > 0), f"{drops[0]:+.1f} of block 0, at most {drops[1:].max():+.1f} of others"


def last_stage_is_neutral(figures: Figures) -> Verdict:
    """No block of it costs more than a point."""
    if not figures.borders:
        raise NotAsked("one stage")
    rows = figures.table[(figures.table.level == "block") & (figures.table.measure == "accuracy_drop")]
    drops = rows[pd.to_numeric(rows["index"]) >= figures.borders[-1]].value
    return bool(drops.abs().max() <= 1), "drops " + ", ".join(f"{d:+.1f}" for d in drops)


def entropy_against_importance(figures: Figures) -> Verdict:
    value = figures.one("entropy_drop_pearson")
    return value < 0, f"r = {value:+.2f}"


def gains_help(figures: Figures) -> Verdict:
    found, plain = figures.by_index("accuracy", r"residual-heads [0-9S]"), figures.one("accuracy", "zero-shot")
    return bool((found > plain).all()), f"{plain:.2f} → {', '.join(f'{v:.2f}' for v in found)}"


def two_stages_are_best(figures: Figures) -> Verdict:
    found = figures.by_index("accuracy", r"residual-heads [0-9S]")
    if len(found) < 3:
        raise NotAsked("fewer than three subsets")
    return bool(found.iloc[1] == found.max()), ", ".join(f"{i.removeprefix('residual-heads ')}: {v:.2f}" for i, v in found.items())


def earlier_sign(figures: Figures) -> Verdict:
    value = figures.one("accuracy_gain", "residual-heads, earlier run")
    return value < 0, f"{value:+.2f} points"


def stage_gains_do_not_help(figures: Figures) -> Verdict:
    rows = figures.table[(figures.table.measure == "accuracy") & figures.table["index"].str.startswith("residual-stage")]
    plain = figures.one("accuracy", "zero-shot")
    if not len(rows):
        raise NotAsked("no gains on a stage")
    return bool(rows.value.iloc[0] < plain), f"{plain:.2f} → {rows.value.iloc[0]:.2f}"


def linear_beats_all(figures: Figures) -> Verdict:
    accuracy = figures.table[figures.table.measure == "accuracy"].set_index("index").value
    others = accuracy.drop("linear-probe")
    return bool(accuracy["linear-probe"] > others.max()), f"{accuracy['linear-probe']:.2f} against {others.max():.2f}"


def first_stage_alone_is_best(figures: Figures) -> Verdict:
    found = figures.by_index("accuracy_median", "residual-stage")
    return bool(
        found.iloc[0] == found.max()
    ), f"median {found.iloc[0]:.2f} of the first alone, at most {found.iloc[1:].max():.2f} of other sets"


def all_stages_are_worst(figures: Figures) -> Verdict:
    found, spread = (figures.by_index(f"accuracy_{what}", "residual-stage") for what in ("median", "std"))
    worst = found.iloc[-1] == found.min() and spread.iloc[-1] == spread.max()
    return bool(worst), f"median {found.iloc[-1]:.2f} (least {found.min():.2f}), spread {spread.iloc[-1]:.2f} (most {spread.max():.2f})"


def consistent_across_data(figures: Figures) -> Verdict:
    values = figures.table[figures.table.measure == "pca_99"].value
    if len(values) < 2:
        raise NotAsked("one data set")
    variation = float(values.std(ddof=1) / values.mean())
    return variation < 0.1, f"CV over data sets {variation:.2f}"


def first_pairs(figures: Figures) -> Verdict:
    rows = figures.table[(figures.table.measure == "pca_99_difference") & figures.table["index"].str.startswith("S0-")]
    if len(rows) < 2:
        raise NotAsked("fewer than three stages")
    values = rows.sort_values("index").value.to_numpy(float)
    return bool((np.diff(values) > 0).all()), arrows(values, 2)
