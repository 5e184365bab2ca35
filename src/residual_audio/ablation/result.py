"""What an ablation found: scores of every clip with the model whole and with each unit replaced, and the tables made of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.stats import spearmanr

from ..analysis.simultaneous import simultaneous_means
from ..evaluation.metrics import margins, outcome, per_class_mean
from ..evaluation.significance import mean_intervals
from ..results import Result, write_record, write_table
from ..units import Kind, Unit, UnitTable


@dataclass(frozen=True)
class AblationResult(Result):
    """``whole`` and ``ablated`` are class scores, ``estimate`` the first-order drop in margin; ``groups``: of every ablated clip;
    ``made_by``: model, data and settings.

    ``tables``: ``ablation_KIND`` and ``ablation_class_KIND`` for every kind of unit that was replaced.
    """

    record: ClassVar[str] = "ablation"

    units: tuple[Unit, ...]
    table_of_units: UnitTable
    classes: tuple[str, ...]
    targets: np.ndarray
    groups: list[str]
    whole: Float[np.ndarray, "clip class"]
    ablated: Float[np.ndarray, "unit clip class"]
    estimate: Float[np.ndarray, "unit clip"]
    errors: dict[str, str]
    made_by: dict[str, Any]

    @property
    def how(self) -> str:
        return self.made_by["settings"]["how"]

    @property
    def classifier(self) -> str:
        return self.made_by["settings"]["classifier"]

    @property
    def labels(self) -> list[str]:
        return [unit.label for unit in self.units]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds that were replaced, in the order of their first unit."""
        return tuple(dict.fromkeys(unit.kind for unit in self.units))

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        units, classes = self.table(), self.per_class()
        parts = {}
        for kind in self.kinds:
            own = units[units.kind == kind].reset_index(drop=True)
            parts[f"ablation_{kind}"] = own
            parts[f"ablation_class_{kind}"] = classes[classes.label.isin(own.label)].reset_index(drop=True)
        return parts

    @property
    def info(self) -> dict[str, Any]:
        """``first_order_spearman`` by kind."""
        return {
            **self.made_by,
            "accuracy": self.accuracy,
            "first_order_spearman": {kind: self.agreement(kind) for kind in self.kinds},
            "clips": {"used": len(self.targets), "errors": len(self.errors)},
        }

    def write(self, folder: str | Path) -> Path:
        """The tables and, for every kind, ``ablation_KIND.json``: ablations of other kinds in the same folder stay as they are."""
        folder, info = Path(folder), self.info
        for name, table in self.tables.items():
            write_table(table, folder / "tables", name)
        for kind in self.kinds:
            own = {"kind": kind, "first_order_spearman": info["first_order_spearman"][kind]}
            write_record(folder / f"{self.record}_{kind}.json", {**info, **own, "errors": self.errors})
        return folder

    def _drops(self) -> tuple[np.ndarray, np.ndarray]:
        """Per unit and clip: what was right and is not (or the other way round), and how much margin went."""
        right = outcome(self.whole, self.targets).correct.astype(float)
        ablated_right = np.stack([outcome(scores, self.targets).correct for scores in self.ablated])
        return right - ablated_right, margins(self.whole, self.targets) - margins(self.ablated, self.targets)

    def table(self) -> pd.DataFrame:
        """One row per unit. Drops are whole − ablated (positive: the unit helps), with 95 % paired intervals over groups.

        ``_low``, ``_high`` are of each unit alone; ``_all_low``, ``_all_high`` and ``_all_p`` hold for all units of its kind at once: the
        best of 184 heads is the best partly by luck.
        """
        accuracy, margin = self._drops()
        depth = {pair: i for i, pair in enumerate(self.table_of_units.blocks)}
        rows = pd.DataFrame(
            [(u.label, u.kind, u.stage, u.block, depth[u.stage, max(u.block, 0)], u.head) for u in self.units],
            columns=["label", "kind", "stage", "block", "depth", "head"],
        )
        for name, values in (("accuracy", accuracy), ("margin", margin)):
            drop, low, high = mean_intervals(values.T, self.groups, seed=self.made_by["settings"]["seed"])
            rows[f"{name}_drop"], rows[f"{name}_low"], rows[f"{name}_high"] = drop, low, high
            for kind in self.kinds:
                own = (rows.kind == kind).to_numpy()
                every = simultaneous_means(values[own].T, self.groups, seed=self.made_by["settings"]["seed"])
                rows.loc[own, [f"{name}_all_low", f"{name}_all_high", f"{name}_all_p"]] = np.stack([every.low, every.high, every.p], 1)
        return rows.assign(first_order=self.estimate.mean(1), clips=len(self.targets))

    def per_class(self) -> pd.DataFrame:
        """One row per unit and class."""
        accuracy, margin = self._drops()
        count = np.bincount(self.targets, minlength=len(self.classes))
        parts = [
            pd.DataFrame(
                {
                    "label": label,
                    "class": self.classes,
                    "clips": count,
                    "accuracy_drop": per_class_mean(accuracy[i], self.targets, len(self.classes)),
                    "margin_drop": per_class_mean(margin[i], self.targets, len(self.classes)),
                }
            )
            for i, label in enumerate(self.labels)
        ]
        return pd.concat(parts, ignore_index=True)

    @property
    def accuracy(self) -> float:
        """Of the whole model."""
        return float(outcome(self.whole, self.targets).correct.mean())

    def agreement(self, kind: Kind) -> tuple[float, float]:
        """Spearman's rank correlation of the first-order estimate with the true drop in margin over the units of a kind, and p."""
        rows = [i for i, unit in enumerate(self.units) if unit.kind == kind]
        if len(rows) < 3:
            return float("nan"), float("nan")
        correlation = spearmanr(self.estimate[rows].mean(1), self._drops()[1][rows].mean(1))
        return float(correlation.statistic), float(correlation.pvalue)
