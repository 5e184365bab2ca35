"""Runs beside each other: the same heads on several data sets can be paired, heads of different models cannot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from .battery import Analysis
from .errors import AnalysisError
from .keys import select
from .measures import MEASURES
from .statistics import dataset_tests
from .variation import dataset_variation


def model_of(analysis: Analysis) -> str:
    """Name and revision of the model: two are one only if both agree."""
    model = analysis.info["model"]
    return f"{model['name']} ({model['revision']})" if model.get("revision") else str(model["name"])


def same_model(analyses: Iterable[Analysis]) -> bool:
    """Whether all were made with one model, to the revision."""
    return len({model_of(a) for a in analyses}) < 2


def varied_over_datasets(results: Mapping[str, Analysis], regime: str = "pre") -> pd.DataFrame:
    """How much the means of stages, and the steps between them, vary from data set to data set."""
    heads = {name: select(a.tables, regime)["heads"] for name, a in results.items()}
    everywhere = [m.name for m in MEASURES.values() if m.tested and all(m.name in table for table in heads.values())]
    return dataset_variation(heads, everywhere)


def between_datasets(results: Mapping[str, Analysis], regime: str = "pre", level: str = "clip") -> pd.DataFrame:
    """Tests between data sets, by name, for every measure; paired, since the heads are the same. Refused for runs of different models."""
    chosen = {name: select(a.tables, regime, level) for name, a in results.items()}
    if missing := [name for name, tables in chosen.items() if "heads" not in tables]:
        raise AnalysisError(f"{', '.join(missing)}: not analysed in the regime {regime!r} at the level {level!r}")
    named = [tables["heads"].assign(dataset=name, model=model_of(results[name])) for name, tables in chosen.items()]
    together = pd.concat(named, ignore_index=True)
    everywhere = [m for m in MEASURES.values() if all(m.name in tables["heads"] for tables in chosen.values())]
    tested = [m.name for m in everywhere if m.tested and m.of != "classes"]
    return dataset_tests(together, tested)
