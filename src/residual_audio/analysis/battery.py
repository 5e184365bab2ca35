"""The whole analysis of a run, from its files alone: one tidy table per kind of row, similarity, specialisation, statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..progress import progress
from ..results import Result, write_record, write_table
from ..spectra import Basis, shares
from ..units import UnitTable
from .attention import attention_form, attention_tables
from .compared import by_block, compared
from .dimension import Dimensions, estimate_dimensions, linear_dimensions
from .discriminability import component_fisher
from .errors import AnalysisError
from .keys import BOTH, KEYS, LEVELS, select, upgrade, views, with_keys
from .measures import MEASURES, Labelled, class_measures, dimension_measures
from .representations import MAKERS, representation
from .sample import Sample, flat_references, sample_of
from .shape import shapes
from .similarity import ANYWHERE, SIMILARITIES
from .specialisation import fingerprint_map, selectivity, ward
from .statistics import pairwise, stage_tests, trend
from .summaries import grouped
from .variation import borders, dominance, variation
from .views import StoredRun, View, class_targets, in_stream, padded, similarity_tables, view

Layout = Literal["auto", "umap", "pca"]


@dataclass(frozen=True)
class Analysis(Result):
    """``tables`` by name; their columns ``regime`` and ``level`` say what a row is about, see :func:`.keys.select`."""

    tables: dict[str, pd.DataFrame]
    info: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    record: ClassVar[str] = "analysis"

    def select(self, regime: str | None = None, level: str | None = None) -> dict[str, pd.DataFrame]:
        """The tables of one regime at one level (default: the first that was analysed), without the key columns."""
        present = views(self.tables)
        for pair in present:
            if regime in (None, pair[0]) and level in (None, pair[1]):
                return select(self.tables, *pair)
        known = ", ".join(f"{r}/{v}" for r, v in present)
        raise AnalysisError(f"the analysis has no regime {regime!r} at the level {level!r}; it has {known}")

    def heads(self, regime: str | None = None, level: str | None = None) -> pd.DataFrame:
        """One row per head with every measure."""
        return self.select(regime, level)["heads"]

    def write(self, folder: str | Path) -> Path:
        """``folder/tables`` and ``folder/analysis.json``; rows of other regimes and levels that are there stay. Returns the folder."""
        folder = Path(folder)
        upgrade(folder / "tables")
        for name, table in self.tables.items():
            write_table(table, folder / "tables", name, keys=KEYS)
        write_record(folder / f"{self.record}.json", {**self.info, "errors": self.errors})
        return folder


def component_table(head_places: pd.DataFrame, basis: Basis, fisher: Float[Tensor, "head axis"] | None) -> pd.DataFrame:
    """One row per axis of a head."""
    heads, axes = basis.variance.shape
    part = shares(basis.variance)
    table = head_places.loc[head_places.index.repeat(axes), ["label", "stage", "depth", "head"]].reset_index(drop=True)
    table["axis"] = np.tile(np.arange(1, axes + 1), heads)
    table["variance"], table["ratio"] = basis.variance.flatten().numpy(), part.flatten().numpy()
    table["cumulative"] = part.cumsum(-1).flatten().numpy()
    table["fisher"] = np.nan if fisher is None else fisher.flatten().numpy()
    return table


@dataclass(frozen=True)
class Choices:
    """How an analysis is done."""

    k: int = 20
    similarity: tuple[str, ...] = ("spectra", "subspaces")
    clusters: int | None = None
    layout: Layout = "pca"
    draws: int = 10
    seed: int = 0


def unit_dimensions(
    run: StoredRun, seen: View, sample: Sample, how: Choices, centred: bool, advance: Callable[[int], object] | None
) -> Dimensions:
    if seen.points is not None:
        return estimate_dimensions(seen.points, how.k, sample.groups, sample.draws, centred=centred, seed=how.seed, advance=advance)
    moments = run.moments("tokens")
    return linear_dimensions(moments if seen.frames is None else in_stream(moments, seen.frames))


def class_tables(run: StoredRun, seen: View, heads: pd.DataFrame, rows: Int[np.ndarray, " row"] | None) -> dict[str, pd.DataFrame]:
    """Measures of points and classes, added to ``heads``, and tables by class; nothing without points or with fewer than two classes."""
    known = class_targets(run, rows) if seen.points is not None else None
    if known is None or seen.points is None:
        return {"components": component_table(heads, seen.basis, None)}
    targets, names = known
    labelled = Labelled(seen.points, seen.rest, targets, len(names))
    for measure in class_measures():
        heads[measure.name] = measure.compute(labelled).numpy()
    heads["preferred"] = [names[i] if i >= 0 else "" for i in selectivity(labelled.activation).preferred.tolist()]
    by_axis = component_fisher(seen.points, seen.basis.axes, targets, len(names))
    return {
        "components": component_table(heads, seen.basis, by_axis),
        "class_activation": pd.concat([heads[["label"]], pd.DataFrame(labelled.activation.numpy(), columns=names)], axis=1),
    }


def cluster_table(where: pd.DataFrame, variance: Float[Tensor, "head axis"], how: Choices) -> pd.DataFrame:
    """Ward's order and clusters of the fingerprints, and their map."""
    tree = ward(variance, how.clusters)
    try:
        plane = fingerprint_map(variance, seed=how.seed, method=how.layout)
    except (ImportError, ValueError) as error:
        raise AnalysisError(str(error)) from error
    return where[["label", "stage", "depth"]].assign(
        order=tree.order.argsort().numpy(),
        cluster=tree.clusters.numpy(),
        x=plane.xy.numpy()[:, 0],
        y=plane.xy.numpy()[:, 1],
        map=plane.method,
    )


def tests_of(heads: pd.DataFrame, dataset: str, seed: int) -> dict[str, pd.DataFrame]:
    """Tests between stages (or blocks, in a model of one stage), pair by pair, trends with depth, and how measures vary on the way."""
    tested = [m for m in MEASURES.values() if m.tested and m.name in heads]
    tested = [m for m in tested if m.of == "classes" or heads[m.name].notna().any()]
    names, plain = [m.name for m in tested], [m.name for m in tested if m.of != "draws"]
    named, by = heads.assign(dataset=dataset), "stage" if heads["stage"].nunique() > 1 else "depth"
    return {
        "statistics": stage_tests(named, names, by=by),
        "pairwise": pairwise(named, names, by=by),
        "trend": trend(named, names),
        "variation": variation(heads, plain),
        "borders": borders(heads, plain),
        "dominance": dominance(heads),
        "shape": shapes(heads, plain, seed),
    }


def unit_tables(run: StoredRun, seen: View, sample: Sample, how: Choices, centred: bool,
                advance: Callable[[int], object] | None) -> tuple[dict[str, pd.DataFrame], Dimensions]:  # fmt: skip
    """One row per unit of a view with every measure, and the tables by axis and by class."""
    dimensions = unit_dimensions(run, seen, sample, how, centred, advance)
    # The same spectrum in every table: a constant head has none, and rounding is not taken for one.
    seen = replace(seen, basis=replace(seen.basis, variance=dimensions.variance))
    heads = pd.concat([seen.where, dimensions.table], axis=1)
    heads["ceiling"] = np.minimum(heads.get("distinct", heads["n"]) - 1, seen.rank.numpy())
    for measure in dimension_measures():
        if measure.counts:
            heads[f"{measure.name}_rel"] = heads[measure.name] / heads["ceiling"]
    by_class = class_tables(run, seen, heads, sample.rows)
    heads["note"] = heads.pop("note")
    return {"heads": heads, **by_class}, dimensions


def analyze_view(run: StoredRun, regime: str, level: str, sample: Sample, how: Choices,
                 advance: Callable[[int], object] | None) -> dict[str, pd.DataFrame]:  # fmt: skip
    """All tables of one regime at one level."""
    rows, own = sample.rows, regime in (*BOTH, "uncentred")
    seen = [view(run, regime, level, rows)] if own else representation(run, regime, rows)
    made = [unit_tables(run, part, sample, how, regime != "uncentred", advance) for part in seen]
    tables = {name: pd.concat([tables[name] for tables, _ in made], ignore_index=True) for name in made[0][0]}
    variance = padded([dimensions.variance for _, dimensions in made], 0)
    heads = tables["heads"]
    if regime == "attention":
        tables |= attention_tables(run, heads, sample, how)
    whole = replace(seen[0], basis=replace(seen[0].basis, variance=variance)) if own else joined(seen, how.similarity)
    kinds = how.similarity if own else tuple(kind for kind in how.similarity if kind in ANYWHERE)
    return {
        "heads": heads,
        "blocks": grouped(heads, ["stage", "block", "depth"]),
        "stages": grouped(heads, ["stage"]),
        **{name: table for name, table in tables.items() if name != "heads"},
        **similarity_tables(run, whole, variance, kinds, rows),
        "clusters": cluster_table(whole.where, variance, how),
        **tests_of(heads, run.info["dataset"]["name"], how.seed),
    }


def joined(parts: Sequence[View], similarity: Sequence[str]) -> View:
    """Views of several lengths as one, for what compares units with each other; points only where they are asked for."""
    points = padded([p.points for p in parts if p.points is not None], 1) if "cka" in similarity else None
    where = pd.concat([p.where for p in parts], ignore_index=True)
    rest, rank = (torch.cat([getattr(p, name) for p in parts]) for name in ("rest", "rank"))
    return View(where, None, parts[0].basis, points, rest, rank)


def checked(run: StoredRun, of: Sequence[str], regime: str, level: str, how: Choices, points: int | None) -> None:
    """Refuse what this run cannot answer."""
    if regime not in (*BOTH, "uncentred", "both"):
        raise AnalysisError(f"unknown regime {regime!r}; one of pre, post, both, uncentred")
    if unknown := [one for one in of if one != "heads" and one not in MAKERS]:
        raise AnalysisError(f"cannot analyse {', '.join(unknown)}; one or more of heads, {', '.join(MAKERS)}")
    if "heads" not in of and (regime != "pre" or level != "clip"):
        raise AnalysisError("regime and level are those of head outputs; leave them out, or analyse heads too")
    if level not in LEVELS:
        raise AnalysisError(f"unknown level {level!r}; one of clip, token")
    if how.draws < 0:
        raise AnalysisError(f"draws is {how.draws}; 0 switches one clip per recording off")
    if how.k < 2:
        raise AnalysisError(f"k is {how.k}; estimates from neighbours need at least 2")
    if how.clusters is not None and not 1 <= how.clusters <= (heads := len(run.units.where("head"))):
        raise AnalysisError(f"cannot make {how.clusters} clusters of {heads} heads")
    if unknown := sorted(set(how.similarity) - set(SIMILARITIES)):
        raise AnalysisError(f"unknown similarity {', '.join(unknown)}; one or more of {', '.join(SIMILARITIES)}")
    if "direct" in how.similarity and "direct.units" not in run.keys:
        raise AnalysisError("the run has no direct shares; extract with --granularity head,moments,direct")
    if len(run.clips) < 2:
        raise AnalysisError(f"the run has {len(run.clips)} readable clips; an analysis needs at least 2")
    if points is not None and points < 2:
        raise AnalysisError(f"points is {points}; an analysis needs at least 2")


def count_units(units: UnitTable, kinds: Sequence[str], regime: str) -> int:
    """How many units will be measured."""
    heads, blocks = len(units.where("head")), len(units.blocks)
    several = {"heads": heads * (2 if regime == "both" else 1), "joint": heads, "attention": heads, "stages": len(units.heads) + 1}
    return sum(several.get(kind, blocks) for kind in kinds)


def analyze(
    run: StoredRun,
    regime: str = "pre",
    level: str = "clip",
    *,
    of: Sequence[str] = ("heads",),
    k: int = 20,
    points: int | None = None,
    similarity: Sequence[str] = ("spectra", "subspaces"),
    clusters: int | None = None,
    layout: Layout = "pca",
    draws: int = 10,
    seed: int = 0,
    advance: Callable[[int], object] | None = None,
) -> Analysis:
    """Analyse a finished run; no model is needed.

    ``of``: ``heads``, and other representations (:data:`.representations.MAKERS`), whose units fill the same tables under a regime of their
    own. ``regime``: ``pre`` (head outputs), ``post`` (what they write into the stream), ``both``, or ``uncentred``; ``level``: ``clip``
    (pooled head outputs) or ``token`` (from streamed moments: spectra only, since distances need points). ``k``: neighbours of MLE;
    ``similarity``: of heads, by ``spectra``, ``subspaces`` and ``paired`` (in the stream, within a stage), ``cka``, ``direct`` (in the
    pooled output); ``points``: use at most so many clips, drawn with ``seed`` (neighbours cost n²). ``draws``: how often one clip per
    recording (the run's ``group``) is drawn for the columns ``_one``, and as many clips of all for ``_control``; 0: not at all.
    ``advance(n)`` is told of finished units.
    """
    how = Choices(k, tuple(similarity), clusters, layout, draws, seed)
    checked(run, of, regime, level, how, points)
    # Moments of tokens are of all clips, and tokens have no neighbours.
    sample = sample_of(run, points, draws, seed) if level == "clip" else sample_of(run, None, 0, seed)
    parts: dict[str, list[pd.DataFrame]] = {}
    heads = (BOTH if regime == "both" else (regime,)) if "heads" in of else ()
    with progress(f"units on {run.info['dataset']['name']}", count_units(run.units, of, regime), advance) as advance:
        for one in (*heads, *(other for other in of if other != "heads")):
            seen = level if one in heads else "clip"
            for name, table in analyze_view(run, one, seen, sample, how, advance).items():
                parts.setdefault(name, []).append(with_keys(table, one, seen))
    info = {
        "model": run.info["model"],
        "dataset": run.info["dataset"],
        "extraction": run.info.get("settings", {}),
        "clips": len(sample.groups),
        "groups": int(sample.groups.max()) + 1,
        "one_per_group": sample.note if level == "clip" else "neighbours need clip level",
        "flat": flat_references(run, sample, k, seed) if level == "clip" and "heads" in of else [],
        "of": list(of),
        "regime": regime,
        "level": level,
        **({"attention": attention_form(run)} if "attention" in of else {}),
        "k": k,
        "points": points,
        "similarity": list(similarity),
        "clusters": clusters,
        "map": layout,
        "draws": draws,
        "seed": seed,
    }
    tables = {name: pd.concat(some, ignore_index=True) for name, some in parts.items()}
    if len(of) > 1:
        beside = by_block(tables)
        tables |= {"representations": beside, "representation_tests": compared(beside)}
    return Analysis(tables, info)
