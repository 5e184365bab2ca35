"""Regime and level are columns of the tables of an analysis, not parts of their names: one table holds all that was looked at.

``regime``: what is looked at (:data:`REGIMES`): head outputs (``pre``), what they write into the stream (``post``), or another
representation, one row per unit of that kind in the same tables; ``level``: ``clip`` or ``token``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from ..results import write_table
from .errors import AnalysisError

KEYS = ("regime", "level")
LEVELS = ("clip", "token")
# In words, as figures and screens say it. The first two are of ``--regime both``.
REGIMES = {
    "pre": "pre-projection",
    "post": "post-projection",
    "uncentred": "pre-projection, spectra about zero",
    "joint": "heads' shares of the joint embedding",
    "attention": "attention weights",
    "mlps": "what MLPs write",
    "writes": "what attention writes",
    "blocks": "streams that enter blocks",
    "stages": "streams that leave stages, and the embedding",
}
BOTH = ("pre", "post")
# What one row is, where it is not a head.
UNITS = {"mlps": "MLP", "writes": "attention write", "blocks": "block entry", "stages": "stage end"}
VIEWS = tuple((regime, level) for regime in REGIMES for level in LEVELS)
FIRST = ("pre", "clip")

TABLES = (
    "heads",
    "blocks",
    "stages",
    "components",
    "class_activation",
    "clusters",
    "statistics",
    "pairwise",
    "trend",
    "dataset_statistics",
    "attention_means",
    "variation",
    "borders",
    "dominance",
    "shape",
    "importance",
    "dataset_variation",
)

Tables = Mapping[str, pd.DataFrame]


def plural(what: str) -> str:
    """``heads``, ``block entries``."""
    return what[:-1] + "ies" if what.endswith("y") else what + "s"


def file_prefix(regime: str, level: str) -> str:
    """What comes before the name of a file that shows one regime at one level: nothing for head outputs of clips."""
    first = {"pre": "", "post": "postproj_"}.get(regime, f"{regime}_" if regime else "")
    return first + ("token_" if level == "token" else "")


def is_keyed(name: str) -> bool:
    """Whether a table of this name is one of an analysis, which differs between regimes and levels."""
    return name in TABLES or name.startswith("similarity_")


def with_keys(table: pd.DataFrame, regime: str, level: str) -> pd.DataFrame:
    """The table with its keys as first columns; an index with a name becomes a column."""
    flat = table.reset_index() if table.index.name else table
    if taken := [key for key in KEYS if key in flat]:
        raise AnalysisError(f"a class is called {' and '.join(taken)}, which is a column of every table; rename it and extract again")
    return pd.concat([pd.DataFrame({"regime": regime, "level": level}, index=flat.index), flat], axis=1)


def views(tables: Tables) -> list[tuple[str, str]]:
    """The (regime, level) pairs that these tables are about."""
    present = {tuple(pair) for t in tables.values() if set(KEYS) <= set(t) for pair in t[list(KEYS)].drop_duplicates().to_numpy()}
    present |= {FIRST for name, t in tables.items() if is_keyed(name) and not set(KEYS) <= set(t)}
    return [pair for pair in VIEWS if pair in present]


def select(tables: Tables, regime: str = "pre", level: str = "clip") -> dict[str, pd.DataFrame]:
    """What the tables say about one regime at one level, without the key columns; tables that say nothing about it are left out.

    Tables of an analysis without keys were written before there were any, and are of head outputs of clips. Others, such as ablations,
    are of no regime and stay as they are.
    """
    chosen: dict[str, pd.DataFrame] = {}
    for name, table in tables.items():
        if set(KEYS) <= set(table):
            own_rows = table[(table["regime"] == regime) & (table["level"] == level)]
            if len(own_rows):
                # A square table has one column per row: those of other units belong to other regimes.
                square = name.startswith("similarity_") and "label" in own_rows
                columns = ["label", *own_rows["label"]] if square else [c for c in own_rows if c not in KEYS]
                chosen[name] = own_rows[columns].reset_index(drop=True)
        elif not is_keyed(name) or (regime, level) == FIRST:
            chosen[name] = table
    return chosen


def upgrade(folder: Path) -> None:
    """Give tables that were written before there were keys their keys, so that rows added to them keep the old ones."""
    for regime, level in ((r, v) for r in BOTH for v in LEVELS):  # those without a prefix first: the others join them
        prefix = file_prefix(regime, level)
        for path in sorted(folder.glob(f"{prefix}*.parquet")):
            name = path.stem.removeprefix(prefix)
            if not is_keyed(name) or set(KEYS) <= set(table := pd.read_parquet(path)):
                continue
            write_table(with_keys(table, regime, level), folder, name, keys=KEYS)
            if prefix:
                path.unlink()
                path.with_suffix(".csv").unlink(missing_ok=True)
