"""What of a stored run the analysis looks at: heads before or after the projection, their points or only their moments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..decomposition.heads import Frame, contribution_frame
from ..spectra import Basis, Moments, principal_axes
from ..units import UnitTable
from .errors import AnalysisError
from .similarity import covariance_similarity, linear_cka, paired_similarity, spectrum_similarity, subspace_similarity, within_between

Alike = Callable[[Float[Tensor, "head axis d"], Float[Tensor, "head axis"]], Float[Tensor, "head head"]]
# Clips whose direct shares are in memory at once.
DIRECT_BATCH = 256


@runtime_checkable
class StoredRun(Protocol):
    """What the analysis needs of a run; :class:`residual_audio.Run` is one."""

    @property
    def info(self) -> dict[str, Any]: ...
    @property
    def units(self) -> UnitTable: ...
    @property
    def keys(self) -> list[str]: ...
    @property
    def heads(self) -> Any: ...
    @property
    def clips(self) -> pd.DataFrame: ...
    @property
    def weights(self) -> dict[str, Tensor]: ...
    def moments(self, level: str) -> Moments: ...
    def array(self, key: str) -> Any: ...
    def joint_shares(self, rows: Any) -> tuple[Tensor, Tensor]: ...


@dataclass(frozen=True)
class View:
    """Units of one regime whose vectors are equally long: their places, their basis, and their points where the level has any."""

    where: pd.DataFrame
    frames: list[Frame] | None
    basis: Basis
    points: Float[Tensor, "clip head d"] | None
    rest: Float[Tensor, " head"]
    rank: Float[Tensor, " head"]


def stream_frames(run: StoredRun) -> list[Frame]:
    """One frame per block, from the stored projections."""
    return [
        contribution_frame(
            run.weights[f"projection.{s}.{b}.weight"], run.weights[f"projection.{s}.{b}.bias"], len(run.units.where("head", s, b))
        )
        for s, b in run.units.blocks
    ]


def in_stream(moments: Moments, frames: list[Frame]) -> Moments:
    """Moments of head outputs as moments of the coordinates of their contributions."""
    r, offset = torch.cat([f.r for f in frames]), torch.cat([f.offset for f in frames])
    n = moments.count[:, None].to(torch.float64)
    moved = torch.einsum("hed,hd->he", r, moments.total)
    cross = moved[:, :, None] * offset[:, None, :]
    second = r @ moments.second @ r.mT + cross + cross.mT + n[..., None] * offset[:, :, None] * offset[:, None, :]
    return Moments(moments.count, moved + n * offset, second)


def view(run: StoredRun, regime: str, level: str, rows: Int[np.ndarray, " row"] | None) -> View:
    """The heads of a run as one regime and level see them."""
    if "head" not in run.keys:
        raise AnalysisError(f"the run has no head outputs; extract with --granularity head,moments (it has {', '.join(run.keys)})")
    frames = stream_frames(run) if regime == "post" else None
    points, moments = None, None
    if level == "clip":
        points = run.heads[slice(None) if rows is None else rows].to(torch.float64)
        wrong = int((~points.isfinite().all(-1).all(-1)).sum())
        if wrong:
            raise AnalysisError(f"head outputs of {wrong} clips are not finite; extract again with --dtype float32")
        if frames is not None:
            split = points.split([len(f.rest) for f in frames], dim=1)
            points = torch.cat([f.coordinates(p) for f, p in zip(frames, split, strict=True)], 1)
        moments = Moments.of(points)
    else:
        try:
            moments = run.moments("tokens")
        except (KeyError, OSError, ValueError) as error:
            raise AnalysisError("the run has no token-level moments; extract with --granularity head,moments") from error
        moments = moments if frames is None else in_stream(moments, frames)
    heads = len(moments.count)
    d = moments.total.shape[1]
    rest = torch.zeros(heads, dtype=torch.float64) if frames is None else torch.cat([f.rest for f in frames])
    rank = torch.full((heads,), float(d), dtype=torch.float64) if frames is None else torch.cat([f.rank for f in frames])
    return View(places(run.units), frames, principal_axes(about_zero(moments) if regime == "uncentred" else moments), points, rest, rank)


def about_zero(moments: Moments) -> Moments:
    """As if the mean were zero: their covariance is Σxxᵀ / (n − 1), which one draft used."""
    return replace(moments, total=torch.zeros_like(moments.total))


def places(units: UnitTable) -> pd.DataFrame:
    """label, stage, block, depth and head of every head, in the table's order."""
    depth = {pair: i for i, pair in enumerate(units.blocks)}
    rows = [(u.label, u.stage, u.block, depth[u.stage, u.block], u.head) for u in units.where("head")]
    return pd.DataFrame(rows, columns=["label", "stage", "block", "depth", "head"])


def class_targets(run: StoredRun, rows: Int[np.ndarray, " row"] | None) -> tuple[Int[Tensor, " clip"], list[str]] | None:
    """Class numbers of the clips; None where there are fewer than two classes."""
    labels = list(run.info.get("labels", []))
    if len(labels) < 2:
        return None
    number = {label: i for i, label in enumerate(labels)}
    numbers = run.clips.label.map(number).to_numpy(dtype=np.int64)
    return torch.tensor(numbers if rows is None else numbers[rows]), labels


def stream_subspaces(run: StoredRun, seen: View, alike: Alike = subspace_similarity) -> Float[Tensor, "head head"]:
    """Similarity of the heads' subspaces in the stream: defined within a stage, whose heads write into one space."""
    frames = seen.frames or stream_frames(run)
    if seen.frames is None:
        split = seen.basis.axes.split([len(f.rest) for f in frames])
        # Axes of outputs are not axes of contributions: the covariance is carried over, then decomposed again.
        variances = seen.basis.variance.split([len(f.rest) for f in frames])
        covariances = [f.r @ (a.mT * v[:, None]) @ a @ f.r.mT for f, a, v in zip(frames, split, variances, strict=True)]
        values, vectors = torch.linalg.eigh(torch.cat(covariances))
        axes, variance = vectors.flip(-1).mT, values.flip(-1).clamp_min(0)
    else:
        axes, variance = seen.basis.axes, seen.basis.variance
    heads = len(variance)
    out = torch.full((heads, heads), torch.nan, dtype=torch.float64)
    stage_of = np.array([u.stage for u in run.units.where("head")])
    written = [torch.einsum("had,hmd->ham", a, f.q) for f, a in zip(frames, axes.split([len(f.rest) for f in frames]), strict=True)]
    block_stage = [s for s, _ in run.units.blocks]
    for stage in sorted(set(block_stage)):
        rows = torch.from_numpy(np.flatnonzero(stage_of == stage))
        together = torch.cat([w for w, s in zip(written, block_stage, strict=True) if s == stage])
        out[rows[:, None], rows] = alike(together, variance[rows])
    return out


def direct_subspaces(run: StoredRun, rows: Int[np.ndarray, " row"] | None) -> Float[Tensor, "head head"]:
    """Similarity of the subspaces that heads write into the pooled output: one space for the heads of all stages."""
    stored = run.array("direct.units")
    heads = [i for i, u in enumerate(run.units) if u.kind == "head"]
    chosen = np.arange(len(stored)) if rows is None else rows
    moments: Moments | None = None
    for start in range(0, len(chosen), DIRECT_BATCH):
        part = Moments.of(stored[chosen[start : start + DIRECT_BATCH]][:, heads])
        moments = part if moments is None else moments + part
    assert moments is not None
    return covariance_similarity(moments.covariance)


def padded(parts: Sequence[Float[Tensor, "*all _"]], dim: int) -> Tensor:
    """Side by side along ``dim``, the shorter vectors with zeros at their end: neither lengths nor products change."""
    longest = max(p.shape[-1] for p in parts)
    return torch.cat([torch.nn.functional.pad(p, (0, longest - p.shape[-1])) for p in parts], dim)


def similarity_tables(run: StoredRun, seen: View, variance: Float[Tensor, "head axis"], kinds: Sequence[str],
                      rows: Int[np.ndarray, " row"] | None) -> dict[str, pd.DataFrame]:  # fmt: skip
    """One square table per kind, and how alike heads are within and between stages."""
    where = seen.where
    labels, stages = where.label.tolist(), torch.tensor(where.stage.tolist())
    tables, summary = {}, []
    for kind in kinds:
        if kind == "spectra":
            matrix = spectrum_similarity(variance)
        elif kind == "subspaces":
            matrix = stream_subspaces(run, seen)
        elif kind == "paired":
            matrix = stream_subspaces(run, seen, paired_similarity)
        elif kind == "direct":
            matrix = direct_subspaces(run, rows)
        elif seen.points is not None:
            matrix = linear_cka(seen.points)
        else:
            continue
        tables[f"similarity_{kind}"] = pd.DataFrame(matrix.numpy(), index=pd.Index(labels, name="label"), columns=labels)
        summary.append({"kind": kind, **within_between(matrix, stages)._asdict()})
    return tables | {"similarity_summary": pd.DataFrame(summary)}
