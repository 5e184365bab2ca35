"""Figures that others have published, shipped with the package, and how ours compare with them, row by row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
KEYS = ["source", "table", "dataset", "level", "index", "measure"]
FIGURES = [*KEYS, "published", "published_std", "decimals"]
HEAD_NAMES = {
    "evr_pc1": "evr_1",
    "evr_pc2": "evr_2",
    "pr": "participation_ratio",
    "shannon_entropy": "entropy",
    "eff_rank": "effective_rank",
}


def published_figures() -> pd.DataFrame:
    """One row per published number: where it stands (:data:`KEYS`), the number, its spread, and how many decimals were printed."""
    texts = [pd.read_csv(HERE / name, dtype=str, keep_default_na=False) for name in ("tables.csv", "further.csv")]
    table = pd.concat([*texts, _accuracies()], ignore_index=True)
    table["decimals"] = table.value.str.partition(".")[2].str.len()
    table["published"], table["published_std"] = pd.to_numeric(table.value), pd.to_numeric(table["std"].replace("", np.nan))
    twice = table[table.duplicated(KEYS)]
    if len(twice):
        raise ValueError(f"published twice: {twice[KEYS].to_dict('records')}")
    return table[FIGURES]


def _accuracies() -> pd.DataFrame:
    """Cross-validated accuracies in the shape of the other files: one row per method (and its stages), in percent."""
    wide = pd.read_csv(HERE / "kfold-accuracy.csv", dtype=str, keep_default_na=False)
    place = wide.assign(table="kfold", level="method", index=(wide.method + " " + wide.stages).str.strip())
    accuracy = place.assign(measure="accuracy", value=place.accuracy_mean, std=place.accuracy_std)
    trained = place.assign(measure="trained", value=place.trained_parameters, std="")
    return pd.concat([accuracy, trained])[[*KEYS, "value", "std"]]


def compared(ours: pd.DataFrame, figures: pd.DataFrame | None) -> pd.DataFrame:
    """Ours, and beside each row the published figure where there is one: every row of ours stays, once.

    ``difference`` is ours − published. ``within_std``: it is at most the published spread. ``as_printed``: ours, rounded to the printed
    ``decimals``, is the published figure. Both are missing where they cannot be said. ``figures=None``: nothing to compare with.
    """
    if figures is None:
        return ours
    both = ours.merge(figures, on=KEYS, how="left", validate="many_to_one")
    both["difference"] = both.ours - both.published
    known, spread = both.difference.notna(), both.published_std.notna()
    size = both.difference.abs()
    both["within_std"] = (size <= both.published_std).astype("boolean").where(known & spread, pd.NA)
    # A hair more than half a unit: 16.25 is printed as 16.3 by some and 16.2 by others.
    half = 0.5 * 10.0 ** -both.decimals.astype(float) * (1 + 1e-6)
    both["as_printed"] = (size <= half + 1e-12).astype("boolean").where(known, pd.NA)
    return both


def missing(ours: pd.DataFrame, figures: pd.DataFrame) -> pd.DataFrame:
    """Published figures of the same tables for which there is no row of ours."""
    tables = figures.merge(ours[["source", "table", "dataset"]].drop_duplicates())
    matched = tables.merge(ours[KEYS].drop_duplicates(), on=KEYS, how="left", indicator=True)
    return matched[matched["_merge"] == "left_only"].drop(columns="_merge").reset_index(drop=True)


def read_heads(path: str | Path) -> pd.DataFrame:
    """A published per-head table (``L2_B4_H1,…``) under our labels and names of measures."""
    try:
        table = pd.read_csv(path)
    except (OSError, pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read as a table of heads ({error})") from error
    place = table.get("head_id", pd.Series(dtype=str)).astype(str).str.extract(r"^L(\d+)_B(\d+)_H(\d+)$")
    if place.empty or place.isna().to_numpy().any():
        raise ValueError(f"{path}: expected a column head_id with names such as L2_B4_H1")
    table = table.rename(columns=HEAD_NAMES).drop(columns="head_id")
    table.insert(0, "label", "S" + place[0] + "B" + place[1] + "H" + place[2])
    return table


def compare_heads(ours: pd.DataFrame, theirs: pd.DataFrame) -> pd.DataFrame:
    """One row per measure that both have: over the heads that both name, how well they agree, and where they differ most."""
    both = ours.merge(theirs, on="label", suffixes=("", "_published"), validate="one_to_one")
    if both.empty:
        raise ValueError(f"no head of ours ({ours.label.iloc[0]}, …) is in the published table ({theirs.label.iloc[0]}, …)")
    rows = []
    for measure in theirs.columns.drop("label"):
        if measure not in ours:
            continue
        a, b = both[measure].astype(float), both[f"{measure}_published"].astype(float)
        gap = (a - b).abs()
        most = int(gap.fillna(-1.0).to_numpy().argmax())
        varied = min(a.std(), b.std()) > 0
        rows.append(
            {
                "measure": measure,
                "heads": int(gap.notna().sum()),
                "correlation": float(a.corr(b)) if varied else np.nan,
                "spearman": float(a.rank().corr(b.rank())) if varied else np.nan,
                "mean_difference": float((a - b).mean()),
                "mean_size": float(gap.mean()),
                "largest": float(gap.iloc[most]),
                "at": both.label.iloc[most],
                "ours": float(a.iloc[most]),
                "published": float(b.iloc[most]),
            }
        )
    return pd.DataFrame(rows)
