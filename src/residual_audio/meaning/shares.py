r"""A run's direct shares of the *unit-length* embedding: the embedding's own length is held like every other norm.

.. math:: \sum_u s_{iu} + c_i = e_i / |e_i|, \qquad \text{so } \sum_u s_{iu} \cdot t + c_i \cdot t = \cos(e_i, t)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from ..extraction import Run
from ..units import Unit
from .dictionary import MeaningError

APPROXIMATION = "direct: norms, activation and length held; effects through later units left out"
CLIPS_AT_ONCE = 64
NUMBERS_AT_ONCE = 2**27  # half a gigabyte of float32


def need_direct(run: Run) -> None:
    if "direct.units" not in run.keys:
        raise MeaningError(f"the run has no direct shares; extract with --granularity head,embedding,direct (it has {', '.join(run.keys)})")


def unit_embeddings(run: Run) -> Float[Tensor, "clip d"]:
    """The joint embeddings at unit length."""
    return torch.nn.functional.normalize(run.array("embedding.joint")[:].to(torch.float32), dim=-1)


def share_batches(run: Run) -> Iterator[tuple[slice, Float[Tensor, "clip unit d"], Float[Tensor, "clip d"]]]:
    """All units' shares and the constant, some clips at a time; together they are the unit-length embedding."""
    need_direct(run)
    embedding = run.array("embedding.joint")
    for start in range(0, len(embedding), CLIPS_AT_ONCE):
        rows = slice(start, min(start + CLIPS_AT_ONCE, len(embedding)))
        shares, constant = run.joint_shares(rows)
        length = embedding[rows].to(torch.float32).norm(dim=-1)
        yield rows, shares / length[:, None, None], constant / length[:, None]


def share_groups(run: Run, units: Sequence[Unit]) -> Iterator[tuple[Sequence[Unit], Float[Tensor, "clip unit d"]]]:
    """The shares of some units, as many units at a time as fit a bounded memory, all clips of each."""
    need_direct(run)
    clips, d = run.array("embedding.joint").shape
    size = max(1, NUMBERS_AT_ONCE // (clips * d))
    for start in range(0, len(units), size):
        group = units[start : start + size]
        index = [run.units.index(u) for u in group]
        out = torch.empty(clips, len(group), d)
        for rows, shares, _ in share_batches(run):
            out[rows] = shares[:, index]
        yield group, out


def text_shares(run: Run, directions: Float[Tensor, "text d"]) -> tuple[Float[Tensor, "clip unit text"], Float[Tensor, "clip text"]]:
    """Every unit's share of every clip's cosine with every text, and the constant's: they sum to the cosine."""
    parts = [(shares @ directions.T, constant @ directions.T) for _, shares, constant in share_batches(run)]
    return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])
