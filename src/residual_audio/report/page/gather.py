"""A run's files as plain data for the page. Every table is optional: what is missing is named with the command that makes it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...extraction import Run
from .pack import digits

# By column: name, what it is, sequential or about zero.
MEASURES = {
    "fisher": ("Fisher ratio", "scatter between over within classes, of the head's outputs", "up"),
    "pca_99": ("PCA dimension (99 %)", "axes that hold 99 % of the variance", "up"),
    "participation_ratio": ("participation ratio", "1 / Σ p², p the shares of the variance", "up"),
    "effective_rank": ("effective rank", "exp of the entropy of the spectrum", "up"),
    "twonn": ("TwoNN dimension", "nonlinear dimension from two nearest neighbours", "up"),
    "mle": ("MLE dimension", "nonlinear dimension from k nearest neighbours", "up"),
    "l_n": ("linear / nonlinear dimension", "PCA (99 %) over TwoNN", "up"),
    "evr_1": ("EVR₁", "share of the variance on the first axis", "up"),
    "activation": ("activation", "mean norm of the output over clips", "up"),
    "selectivity": ("selectivity", "how far one class's norm stands above the others'", "up"),
}
ABLATION = {
    "margin_drop": ("ablation: margin drop", "what the true class's margin loses without the head; positive: it helps", "zero"),
    "accuracy_drop": ("ablation: accuracy drop", "what accuracy loses without the head; positive: it helps", "zero"),
    "first_order": ("ablation: first order", "the margin drop as one backward pass estimates it", "zero"),
}
NEAREST = 6
STAGE_COLUMNS = ("heads", "pca_99", "participation_ratio", "twonn", "mle", "evr_1", "fisher")
RECORDS = ("analysis.json", "ablation_head.json", "describe.json")


def pool_rows(labels: pd.Series, count: int) -> np.ndarray:
    """At most ``count`` clips, class by class in turn, in the order of the run: the clips that a page shows and plays."""
    turn = labels.groupby(labels).cumcount()
    return np.sort(np.argsort(turn.to_numpy(), kind="stable")[:count])


def table(folder: Path, name: str) -> pd.DataFrame | None:
    path = folder / "tables" / f"{name}.parquet"
    return pd.read_parquet(path) if path.exists() else None


def by_label(found: pd.DataFrame | None, labels: list[str]) -> pd.DataFrame | None:
    """Rows in the order of the heads, missing ones empty."""
    return None if found is None else found.drop_duplicates("label").set_index("label").reindex(labels)


def measures(folder: Path, labels: list[str]) -> list[dict[str, Any]]:
    """Everything that colours a head."""
    found = []
    for name, columns in (("heads", MEASURES), ("ablation_head", ABLATION)):
        rows = by_label(table(folder, name), labels)
        if rows is None:
            continue
        for key, (title, what, kind) in columns.items():
            if key in rows and rows[key].notna().any():
                found.append({"key": key, "name": title, "help": what, "kind": kind, "values": digits(rows[key])})
    aligned = by_label(table(folder, "text_alignment"), labels)
    if aligned is not None:
        what = "correlation over clips and classes of the head's share of a score with being of the class"
        found.append({"key": "alignment", "name": "alignment with class texts", "help": what, "kind": "zero",
                      "values": digits(aligned["correlation"])})  # fmt: skip
    return found


def class_columns(folder: Path, labels: list[str], classes: list[str]) -> dict[str, Any]:
    """Per head and class: activation, and what ablation costs."""
    result: dict[str, Any] = {}
    activation = by_label(table(folder, "class_activation"), labels)
    if activation is not None and set(classes) <= set(activation.columns):
        result["activation"] = [digits(row, 3) for row in activation[classes].to_numpy()]
    ablation = table(folder, "ablation_class_head")
    if ablation is not None:
        wide = ablation.pivot_table(index="label", columns="class", values="margin_drop").reindex(index=labels, columns=classes)
        result["ablation"] = [digits(row, 3) for row in wide.to_numpy()]
    return result


def neighbours(folder: Path, labels: list[str]) -> dict[str, Any] | None:
    """The most similar heads, by the similarity that says most of those that were computed."""
    for kind in ("direct", "cka", "subspaces", "spectra"):
        found = by_label(table(folder, f"similarity_{kind}"), labels)
        if found is None:
            continue
        values = found[labels].to_numpy(dtype=float, copy=True)
        np.fill_diagonal(values, -np.inf)
        values[np.isnan(values)] = -np.inf
        order = np.argsort(-values, axis=1, kind="stable")[:, :NEAREST]
        return {
            "kind": kind,
            "heads": [[[int(j), digits([values[i, j]], 3)[0]] for j in row if np.isfinite(values[i, j])] for i, row in enumerate(order)],
        }
    return None


def words(folder: Path, labels: list[str]) -> dict[str, list[dict[str, Any]]] | None:
    """The lists that `describe` made, by head."""
    found = table(folder, "descriptions")
    if found is None:
        return None
    keep = set(labels)
    result: dict[str, list[dict[str, Any]]] = {}
    for row in found.to_dict("records"):
        if row["label"] in keep and (row["method"] != "correlation" or row["component"] <= 3):
            numbers = {k: digits([row[k]], 3)[0] for k in ("explained", "z_null", "p_null", "stability")}
            result.setdefault(row["label"], []).append(
                {"method": row["method"], "component": int(row["component"]), "words": row["words"], **numbers}
            )
    return result


def clustering(folder: Path, labels: list[str]) -> dict[str, Any] | None:
    rows = by_label(table(folder, "clusters"), labels)
    if rows is None:
        return None
    number = [int(v) if v == v else 0 for v in rows["cluster"]]
    return {"x": digits(rows["x"]), "y": digits(rows["y"]), "cluster": number, "map": str(rows["map"].iloc[0])}


def stages(folder: Path) -> list[dict[str, Any]]:
    found = table(folder, "stages")
    if found is None:
        return []
    columns = [c for c in STAGE_COLUMNS if c in found]
    return [{"stage": int(r["stage"]), **dict(zip(columns, digits((r[c] for c in columns), 3), strict=True))} for _, r in found.iterrows()]


def commands(run: Run, folder: Path, others: list[str], own: str) -> list[str]:
    """What to type to have all of this again. ``--limit`` with the number of clips names the same clips, limited or not."""
    info = run.info
    grains = ",".join(g for g in info["settings"]["granularity"])
    words = ["residual-audio", "extract", info["model"]["name"], info["dataset"]["name"], "--limit", str(info["dataset"]["clips"])]
    found = [json.loads((folder / n).read_text()).get("command", "") for n in RECORDS if (folder / n).exists()]
    every = [*found, *others]
    if not any(c.split()[1:2] == ["demo"] for c in every if c):
        every.insert(0, shlex.join([*words, "--granularity", grains, "--out", str(run.store.address)]))
    return list(dict.fromkeys(c for c in [*every, own] if c))


def missing(run: Run, folder: Path) -> dict[str, str]:
    """What a section lacks → the command that makes it."""
    name, data, here = (shlex.quote(str(x)) for x in (run.info["model"]["name"], run.info["dataset"]["name"], run.store.address))
    limit = f" --limit {min(48, run.info['dataset']['clips'])}"
    makes = {
        "heads": f"residual-audio analyze {here}",
        "ablation_head": f"residual-audio ablate {name} {data}{limit} --out {here}",
        "descriptions": f"residual-audio describe {here}",
    }
    lacking = {n: c for n, c in makes.items() if table(folder, n) is None}
    if "head" not in run.keys:
        lacking["components"] = f"residual-audio extract {name} {data} --granularity head,moments,direct --out {here}-with-heads"
    if "direct.units" not in run.keys:
        lacking["direct"] = f"residual-audio extract {name} {data} --granularity head,moments,direct --out {here}-direct"
    return lacking


def other_runs(others: list[Run], labels: list[str]) -> list[dict[str, Any]]:
    """Measures of the same heads on other data, as further colours."""
    found = []
    for other in others:
        folder = other.store.local
        if folder is None or [u.label for u in other.units.where("head")] != labels:
            continue
        name = other.info["dataset"]["name"]
        for one in measures(folder, labels):
            if one["key"] in ("fisher", "twonn", "pca_99", "evr_1", "margin_drop"):
                found.append({**one, "key": f"{one['key']}@{folder.name}", "name": f"{one['name']}, {name}"})
    return found
