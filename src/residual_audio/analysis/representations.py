"""Other representations than head outputs, as views: MLP and attention writes, streams, the embedding, joint shares, attention weights.

Vectors of one view are equally long; a representation has one view per stage, or per block where there are many units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..decomposition.heads import head_contributions
from ..spectra import Moments, principal_axes
from ..units import EMBEDDING, Unit, UnitTable
from .errors import AnalysisError
from .views import StoredRun, View, places

Rows = Int[np.ndarray, " row"]
Part = tuple[list[Unit], Float[Tensor, "clip unit d"]]
# Clips whose shares of all units are in memory at once.
SHARES_AT_ONCE = 128


def representation(run: StoredRun, of: str, rows: Rows | None) -> list[View]:
    """The units of a representation and their vectors, one row per clip."""
    maker, needed = MAKERS[of]
    if missing := [key for key in needed if not any(k == key or k.startswith(f"{key}.") for k in run.keys)]:
        wanted = ",".join(dict.fromkeys(GRANULARITY[key] for key in missing))
        raise AnalysisError(f"the run has no {', '.join(missing)}; extract with --granularity head,{wanted} (it has {', '.join(run.keys)})")
    return [_view(run.units, units, points) for units, points in maker(run, np.arange(len(run.clips)) if rows is None else rows)]


def _view(units: UnitTable, own: list[Unit], points: Float[Tensor, "clip unit d"]) -> View:
    points = points.to(torch.float64)
    if not bool(points.isfinite().all()):
        raise AnalysisError(f"{own[0].label} and others of its kind are not finite; extract again with --dtype float32")
    count, d = points.shape[1:]
    rank = torch.full((count,), float(d), dtype=torch.float64)
    return View(unit_places(units, own), None, principal_axes(Moments.of(points)), points, torch.zeros_like(rank), rank)


def unit_places(units: UnitTable, own: list[Unit]) -> pd.DataFrame:
    """The columns that say where a unit is. A stage end lies at the stage's last block, the embedding behind all of them."""
    depth = {pair: i for i, pair in enumerate(units.blocks)}
    last = {stage: i for (stage, _), i in depth.items()}
    rows = [
        (u.label, len(units.heads), -1, len(depth), -1)
        if u == EMBEDDING
        else (u.label, u.stage, u.block, last[u.stage] if u.block < 0 else depth[u.stage, u.block], u.head)
        for u in own
    ]
    return pd.DataFrame(rows, columns=list(places(units).columns))


def _per_stage(key: str, kind: Any) -> Callable[[StoredRun, Rows], Iterator[Part]]:
    def parts(run: StoredRun, rows: Rows) -> Iterator[Part]:
        for stage, blocks in enumerate(run.units.heads):
            yield [Unit(stage, b, kind) for b in range(len(blocks))], run.array(f"{key}.{stage}")[rows]

    return parts


def _writes(run: StoredRun, rows: Rows) -> Iterator[Part]:
    """What each block's attention writes: the sum of its heads' contributions, pooled like them."""
    heads, start = run.heads[rows].to(torch.float64), 0
    for stage, blocks in enumerate(run.units.heads):
        written = []
        for block, count in enumerate(blocks):
            weight, bias = (run.weights[f"projection.{stage}.{block}.{part}"].to(torch.float64) for part in ("weight", "bias"))
            written.append(head_contributions(heads[:, start : start + count], weight, bias).sum(1))
            start += count
        yield [Unit(stage, b, "block") for b in range(len(blocks))], torch.stack(written, 1)


def _stages(run: StoredRun, rows: Rows) -> Iterator[Part]:
    for stage in range(len(run.units.heads)):
        yield [Unit(stage, -1, "stage")], run.array(f"stage.{stage}")[rows][:, None]
    yield [EMBEDDING], run.array("embedding.joint")[rows][:, None]


def _joint(run: StoredRun, rows: Rows) -> Iterator[Part]:
    """Exact shares of the joint embedding: one space for the heads of all stages."""
    wanted = [i for i, u in enumerate(run.units) if u.kind == "head"]
    some = [run.joint_shares(rows[i : i + SHARES_AT_ONCE].tolist())[0][:, wanted] for i in range(0, len(rows), SHARES_AT_ONCE)]
    yield from _by_block(run.units, torch.cat(some))


def _attention(run: StoredRun, rows: Rows) -> Iterator[Part]:
    for stage in range(len(run.units.heads)):
        yield from _by_block(run.units, run.array(f"attention.{stage}")[rows], stage)


def _by_block(units: UnitTable, points: Float[Tensor, "clip head d"], stage: int | None = None) -> Iterator[Part]:
    start = 0
    for s, b in units.blocks:
        if stage in (None, s):
            own = list(units.where("head", s, b))
            yield own, points[:, start : start + len(own)]
            start += len(own)


# What makes a representation, and the arrays that it needs.
MAKERS: dict[str, tuple[Callable[[StoredRun, Rows], Iterator[Part]], tuple[str, ...]]] = {
    "joint": (_joint, ("direct.units",)),
    "attention": (_attention, ("attention",)),
    "mlps": (_per_stage("mlp", "mlp"), ("mlp",)),
    "writes": (_writes, ("head",)),
    "blocks": (_per_stage("block", "block"), ("block",)),
    "stages": (_stages, ("stage",)),
}
GRANULARITY = {"direct.units": "direct", "attention": "attention", "mlp": "mlp", "block": "block", "stage": "stage", "head": "head"}
