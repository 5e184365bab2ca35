"""The whole analysis of a run, from its files alone: one tidy table per level, similarity, specialisation, statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..spectra import Basis
from ..spectra.measures import shares
from .dimension import MEASURES, Dimensions, estimate_dimensions, linear_dimensions
from .discriminability import component_fisher, fisher_ratio
from .similarity import linear_cka, spectrum_similarity, within_between
from .specialisation import class_activation, fingerprint_map, selectivity, ward
from .statistics import pairwise, stage_tests, trend
from .views import AnalysisError, StoredRun, View, class_targets, direct_subspaces, in_stream, places, stream_subspaces, view

Layout = Literal["auto", "umap", "pca"]
REGIMES, LEVELS = ("pre", "post"), ("clip", "token")
SIMILARITIES = ("spectra", "subspaces", "cka", "direct")
# Measures that count dimensions, and so have a ceiling.
COUNTS = tuple(m for m in MEASURES if m not in ("evr_1", "evr_2", "entropy", "l_n"))


@dataclass(frozen=True)
class Analysis:
    """``tables`` by name (``postproj_`` before those of the post regime, ``token_`` before those of the token level)."""

    tables: dict[str, pd.DataFrame]
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def heads(self) -> pd.DataFrame:
        return next(t for name, t in self.tables.items() if name.endswith("heads"))


def table_prefix(regime: str, level: str) -> str:
    return ("postproj_" if regime == "post" else "") + ("token_" if level == "token" else "")


def grouped(heads: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Means and standard deviations over the heads of a block or stage; L/N is the ratio of the means."""
    groups = heads.groupby(by, sort=True)
    out = groups.size().rename("heads").to_frame()
    for name in MEASURES:
        out[name], out[f"{name}_std"] = groups[name].mean(), groups[name].std()
    out["l_n"] = out.pca_99 / out.twonn
    out["fisher"] = groups["fisher"].mean() if "fisher" in heads else np.nan
    return out.reset_index()


def component_table(head_places: pd.DataFrame, basis: Basis, fisher: Float[Tensor, "head axis"] | None) -> pd.DataFrame:
    """One row an axis of a head."""
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
    seed: int = 0


def head_dimensions(run: StoredRun, seen: View, k: int, advance: Callable[[int], object] | None) -> Dimensions:
    if seen.points is not None:
        return estimate_dimensions(seen.points, k, advance=advance)
    moments = run.moments("tokens")
    return linear_dimensions(moments if seen.frames is None else in_stream(moments, seen.frames))


def similarity_tables(run: StoredRun, seen: View, variance: Float[Tensor, "head axis"], kinds: Sequence[str],
                      rows: Int[np.ndarray, " row"] | None) -> dict[str, pd.DataFrame]:  # fmt: skip
    """One square table a kind, and how alike heads are within and between stages."""
    where = places(run.units)
    labels, stages = where.label.tolist(), torch.tensor(where.stage.tolist())
    tables, summary = {}, []
    for kind in kinds:
        if kind == "spectra":
            matrix = spectrum_similarity(variance)
        elif kind == "subspaces":
            matrix = stream_subspaces(run, seen)
        elif kind == "direct":
            matrix = direct_subspaces(run, rows)
        elif seen.points is not None:
            matrix = linear_cka(seen.points)
        else:
            continue
        tables[f"similarity_{kind}"] = pd.DataFrame(matrix.numpy(), index=pd.Index(labels, name="label"), columns=labels)
        summary.append({"kind": kind, **within_between(matrix, stages)._asdict()})
    return tables | {"similarity_summary": pd.DataFrame(summary)}


def class_tables(run: StoredRun, seen: View, heads: pd.DataFrame, rows: Int[np.ndarray, " row"] | None) -> dict[str, pd.DataFrame]:
    """Discriminability and class activation: adds columns to ``heads``; nothing where there are no points or fewer than two classes."""
    known = class_targets(run, rows) if seen.points is not None else None
    if known is None or seen.points is None:
        return {"components": component_table(heads, seen.basis, None)}
    targets, names = known
    heads["fisher"] = fisher_ratio(seen.points, targets, len(names)).numpy()
    activation = class_activation(seen.points, targets, len(names), seen.rest)
    heads["activation"] = (seen.points.square().sum(-1) + seen.rest.square()).sqrt().mean(0).numpy()
    chosen = selectivity(activation)
    heads["selectivity"] = chosen.value.numpy()
    heads["preferred"] = [names[i] if i >= 0 else "" for i in chosen.preferred.tolist()]
    by_axis = component_fisher(seen.points, seen.basis.axes, targets, len(names))
    return {
        "components": component_table(heads, seen.basis, by_axis),
        "class_activation": pd.concat([heads[["label"]], pd.DataFrame(activation.numpy(), columns=names)], axis=1),
    }


def analyze_view(run: StoredRun, regime: str, level: str, rows: Int[np.ndarray, " row"] | None, how: Choices,
                 advance: Callable[[int], object] | None) -> dict[str, pd.DataFrame]:  # fmt: skip
    """All tables of one regime at one level."""
    seen, where = view(run, regime, level, rows), places(run.units)
    dimensions = head_dimensions(run, seen, how.k, advance)
    # The same spectrum in every table: a constant head has none, and rounding is not taken for one.
    seen = replace(seen, basis=replace(seen.basis, variance=dimensions.variance))
    heads = pd.concat([where, dimensions.table], axis=1)
    heads["ceiling"] = np.minimum(heads.get("distinct", heads.n) - 1, seen.rank.numpy())
    for name in COUNTS:
        heads[f"{name}_rel"] = heads[name] / heads.ceiling
    by_class = class_tables(run, seen, heads, rows)
    heads["note"] = heads.pop("note")
    tables = {"heads": heads, "blocks": grouped(heads, ["stage", "block", "depth"]), "stages": grouped(heads, ["stage"]), **by_class}
    tables |= similarity_tables(run, seen, dimensions.variance, how.similarity, rows)
    tree = ward(dimensions.variance, how.clusters)
    try:
        plane = fingerprint_map(dimensions.variance, seed=how.seed, method=how.layout)
    except (ImportError, ValueError) as error:
        raise AnalysisError(str(error)) from error
    tables["clusters"] = where[["label", "stage", "depth"]].assign(
        order=tree.order.argsort().numpy(),
        cluster=tree.clusters.numpy(),
        x=plane.xy.numpy()[:, 0],
        y=plane.xy.numpy()[:, 1],
        map=plane.method,
    )
    measures = [m for m in MEASURES if heads[m].notna().any()] + (["fisher"] if "fisher" in heads else [])
    named, by = heads.assign(dataset=run.info["dataset"]["name"]), "stage" if heads.stage.nunique() > 1 else "depth"
    tables["statistics"] = stage_tests(named, measures, by=by)
    tables["pairwise"] = pairwise(named, measures, by=by)
    tables["trend"] = trend(named, measures)
    return tables


def analyze(
    run: StoredRun,
    regime: str = "pre",
    level: str = "clip",
    *,
    k: int = 20,
    points: int | None = None,
    similarity: Sequence[str] = ("spectra", "subspaces"),
    clusters: int | None = None,
    layout: Layout = "pca",
    seed: int = 0,
    advance: Callable[[int], object] | None = None,
) -> Analysis:
    """Analyse a finished run; no model is needed.

    ``regime``: ``pre`` (head outputs), ``post`` (what they write into the stream) or ``both``; ``level``: ``clip`` (pooled head
    outputs) or ``token`` (from streamed moments: spectra only, since distances need points). ``k``: neighbours of MLE;
    ``similarity``: of heads, by ``spectra``, ``subspaces`` (in the stream, within a stage), ``cka``, ``direct`` (in the pooled output);
    ``points``: use at most so many clips, drawn with ``seed`` (neighbours cost n²). ``advance(n)`` is told of finished heads.
    """
    if regime not in (*REGIMES, "both"):
        raise AnalysisError(f"unknown regime {regime!r}; one of pre, post, both")
    if level not in LEVELS:
        raise AnalysisError(f"unknown level {level!r}; one of clip, token")
    if k < 2:
        raise AnalysisError(f"k is {k}; estimates from neighbours need at least 2")
    if clusters is not None and not 1 <= clusters <= (heads := len(run.units.where("head"))):
        raise AnalysisError(f"cannot make {clusters} clusters of {heads} heads")
    unknown = sorted(set(similarity) - set(SIMILARITIES))
    if unknown:
        raise AnalysisError(f"unknown similarity {', '.join(unknown)}; one or more of {', '.join(SIMILARITIES)}")
    if "direct" in similarity and "direct.units" not in run.keys:
        raise AnalysisError("the run has no direct shares; extract with --granularity head,moments,direct")
    total, rows = len(run.clips), None
    if total < 2:
        raise AnalysisError(f"the run has {total} readable clips; an analysis needs at least 2")
    if points is not None and points < 2:
        raise AnalysisError(f"points is {points}; an analysis needs at least 2")
    if points is not None and points < total and level == "clip":  # moments of tokens are of all clips
        rows = np.sort(np.random.default_rng(seed).choice(total, points, replace=False))
    how = Choices(k, tuple(similarity), clusters, layout, seed)
    tables: dict[str, pd.DataFrame] = {}
    for one in REGIMES if regime == "both" else (regime,):
        found = analyze_view(run, one, level, rows, how, advance)
        tables |= {table_prefix(one, level) + name: table for name, table in found.items()}
    info = {
        "model": run.info["model"]["name"],
        "dataset": run.info["dataset"]["name"],
        "clips": total if rows is None else len(rows),
        "regime": regime,
        "level": level,
        "k": k,
        "points": points,
        "similarity": list(similarity),
        "clusters": clusters,
        "map": layout,
        "seed": seed,
    }
    return Analysis(tables, info)
