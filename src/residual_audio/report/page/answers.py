"""Which units and components move a run's clips towards each of many texts: the table behind the page's *Ask*."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ...extraction import Run
from ...meaning.shares import unit_embeddings
from ...meaning.span import Span, principal_span

COMPONENTS, BEST = 3, 8
CLIPS_AT_ONCE = 32


@dataclass(frozen=True)
class Answers:
    """``scores``: every clip's cosine with every text; ``share [text, unit]``: part of the variance of a text's cosines that a unit's
    direct share accounts for (over all units and the constant it sums to one); ``components``: the best (unit, component, share, along)."""

    scores: Float[Tensor, "clip text"]
    share: Float[Tensor, "text unit"]
    components: list[list[tuple[int, int, float, float]]]
    clips: int


@dataclass(frozen=True)
class Movers:
    """What questions about some clips have in common: direct shares of their unit embeddings, and the heads' principal spans."""

    rows: np.ndarray
    shares: Float[Tensor, "clip unit d"]
    heads: list[int]
    spans: list[Span]

    @classmethod
    def of(cls, run: Run, rows: np.ndarray) -> Movers:
        length = run.array("embedding.joint")[rows].float().norm(dim=-1)
        shares = torch.cat(
            [
                run.joint_shares(rows[i : i + CLIPS_AT_ONCE].tolist())[0] / length[i : i + CLIPS_AT_ONCE, None, None]
                for i in range(0, len(rows), CLIPS_AT_ONCE)
            ]
        )
        heads = [run.units.index(u) for u in run.units.where("head")]
        return cls(rows, shares, heads, [principal_span(shares[:, unit]) for unit in heads])


def answers(run: Run, texts: Float[Tensor, "text d"], rows: np.ndarray, movers: Movers | None = None) -> Answers:
    """From the direct shares of ``rows``; the same definitions as ``residual-audio ask``. ``movers``: those of ``rows``, if kept."""
    movers = Movers.of(run, rows) if movers is None else movers
    embedding, shares = unit_embeddings(run), movers.shares
    scores = embedding @ texts.to(embedding).T
    seen = scores[rows].double() - scores[rows].double().mean(0)
    variance = seen.square().sum(0).clamp_min(1e-30)
    # cov(share · t, cosine) needs no product of all clips, units and texts: weight the clips first.
    weighted = torch.einsum("ct,cud->tud", seen.float(), shares) if shares[0].numel() * len(texts) < 2**27 else None
    share = torch.stack(
        [
            (weighted[t] if weighted is not None else torch.einsum("c,cud->ud", seen[:, t].float(), shares)) @ texts[t]
            for t in range(len(texts))
        ]
    )
    moves, along, heads = [], [], movers.heads
    for span in movers.spans:
        along.append(
            torch.nn.functional.pad(span.axes[:COMPONENTS] @ texts.double().T, (0, 0, 0, COMPONENTS - len(span.axes[:COMPONENTS])))
        )
        moved = span.scores[:, :COMPONENTS].T @ seen
        moves.append(torch.nn.functional.pad(moved, (0, 0, 0, COMPONENTS - len(moved))) * along[-1] / variance)
    parts, axes = torch.stack(moves), torch.stack(along)
    best = parts.flatten(0, 1).topk(min(BEST, parts.shape[0] * COMPONENTS), dim=0).indices.T.tolist()
    components = [
        [(heads[i // COMPONENTS], i % COMPONENTS + 1, float(parts[i // COMPONENTS, i % COMPONENTS, t]),
          float(axes[i // COMPONENTS, i % COMPONENTS, t])) for i in row]
        for t, row in enumerate(best)
    ]  # fmt: skip
    return Answers(scores, share / variance[:, None].float(), components, len(rows))
