"""A run's files as plain data for the page. Every table is optional: what is missing is named with the command that makes it."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...analysis.keys import select
from ...analysis.measures import MEASURES
from ...extraction import Run
from .pack import digits

NEAREST = 6
RECORDS = ("analysis.json", "ablation_head.json", "describe.json")
LISTED = 3  # components of a head whose words by correlation are listed


def pool_rows(labels: pd.Series, count: int) -> np.ndarray:
    """At most ``count`` clips, class by class in turn, in the order of the run: the clips that a page shows and plays."""
    turn = labels.groupby(labels).cumcount()
    return np.sort(np.argsort(turn.to_numpy(), kind="stable")[:count])


def class_titles(run: Run, labels: Sequence[str]) -> list[str]:
    """What the page calls the classes: the names that prompts use, where they tell the classes apart."""
    names = run.class_names
    titles = [names.get(label, label) for label in labels]
    times = Counter(titles)
    return [label if times[title] > 1 else title for label, title in zip(labels, titles, strict=True)]


def table(folder: Path, name: str) -> pd.DataFrame | None:
    """A table of the run; of an analysis, what it says about head outputs of clips."""
    path = folder / "tables" / f"{name}.parquet"
    return select({name: pd.read_parquet(path)}).get(name) if path.exists() else None


def by_label(rows: pd.DataFrame | None, labels: list[str]) -> pd.DataFrame | None:
    """Rows in the order of the heads, missing ones empty."""
    return None if rows is None else rows.drop_duplicates("label").set_index("label").reindex(labels)


def measures(folder: Path, labels: list[str], gains: Mapping[str, np.ndarray] | None = None) -> list[dict[str, Any]]:
    """Everything that colours a head: every measure that a table of the run, or the adapter, has numbers of."""
    sources = {m.table for m in MEASURES.values()}
    tables = {name: by_label(table(folder, name), labels) for name in sources}
    if gains:
        change = [float(np.abs(gains[x] - 1).mean()) if x in gains else float("nan") for x in labels]
        tables["adapter"] = pd.DataFrame({"gain": change}, index=labels)
    colours = []
    for m in MEASURES.values():
        rows = tables[m.table]
        if m.shown != "tables" and rows is not None and m.column in rows and rows[m.column].notna().any():
            kind = "zero" if m.about_zero else "up"
            colours.append({"key": m.name, "name": m.title, "help": m.help, "kind": kind, "values": digits(rows[m.column])})
    return colours


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
        similarity = by_label(table(folder, f"similarity_{kind}"), labels)
        if similarity is None:
            continue
        values = similarity[labels].to_numpy(dtype=float, copy=True)
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
    lists = table(folder, "descriptions")
    if lists is None:
        return None
    keep = set(labels)
    result: dict[str, list[dict[str, Any]]] = {}
    for row in lists.to_dict("records"):
        if row["label"] in keep and (row["method"] != "correlation" or row["component"] <= LISTED):
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


def stages(folder: Path) -> dict[str, Any] | None:
    """Means over the heads of each stage: the measures that a summary shows."""
    rows = table(folder, "stages")
    if rows is None:
        return None
    shown = [m for m in MEASURES.values() if m.shown == "everywhere" and m.table == "heads" and m.name in rows]
    return {
        "stage": [int(s) for s in rows["stage"]],
        "heads": [int(n) for n in rows["heads"]],
        "columns": [{"name": m.short, "title": m.title, "values": digits(rows[m.name], 3)} for m in shown],
    }


def commands(run: Run, folder: Path, others: list[str], own: str) -> list[str]:
    """What to type to have all of this again. ``--limit`` with the number of clips names the same clips, limited or not."""
    info = run.info
    grains = ",".join(g for g in info["settings"]["granularity"])
    words = ["residual-audio", "extract", info["model"]["name"], info["dataset"]["name"], "--limit", str(info["dataset"]["clips"])]
    drawn = info.get("drawn", {})
    words += ["--sample", "first"] if drawn.get("sample") == "first" else []
    words += ["--sample-seed", str(drawn["sample_seed"])] if drawn.get("sample_seed") else []
    recorded = [json.loads((folder / n).read_text()).get("command", "") for n in RECORDS if (folder / n).exists()]
    every = [*recorded, *others]
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


def other_runs(run: Run, others: list[Run], labels: list[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Measures of the same heads on other data, as further colours; and which runs were left out, since they are of another model."""
    colours, notes = [], []
    for other in others:
        folder, name = other.store.local, other.info["dataset"]["name"]
        if folder is None or any(other.info["model"][k] != run.info["model"][k] for k in ("name", "revision")):
            why = "it is remote" if folder is None else f"it is of another model ({other.info['model']['name']})"
            notes.append(f"The run {other.store.address} is left out of the colours: {why}.")
            continue
        for one in measures(folder, labels):
            if MEASURES[one["key"]].shown == "everywhere":
                colours.append({**one, "key": f"{one['key']}@{folder.name}", "name": f"{one['name']}, {name}"})
    return colours, notes
