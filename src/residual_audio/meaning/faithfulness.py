"""Does a map show what the model listens to? Delete or insert cells of the model's input in the map's order, and watch the score.

Deletion replaces the first cells of an order by the silence that the model knows (its input for a window of zeros); insertion starts from
silence and puts them back. Invariants: with nothing deleted the score is the clip's own, with all deleted silence's; insertion likewise.
A faithful order makes deletion fall early and insertion rise early: the area between the two curves is large.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..audio import Preprocessing, Waveform
from ..models import Encoder
from .masks import Grid
from .tokens import TokenMap, token_map

FRACTIONS = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
AT_ONCE = 16
DRAWN = ("random", "shifted")
ORDERS = {
    "shares": "cells by their exact share of the score, above silence",
    "gradient": "cells by gradient × input",
    "loudness": "cells by how loud they are",
    "random": "cells in random order",
    "shifted": "the map of shares moved by a random time and frequency",
}


@dataclass(frozen=True)
class Heard:
    """One clip as a model's input ``features [1, channel, frame, mel]``, its ``silence``, and the text's ``direction``."""

    encoder: Encoder
    features: Float[Tensor, "1 channel frame mel"]
    silence: Float[Tensor, "1 channel frame mel"]
    longer: Bool[Tensor, " 1"]
    direction: Float[Tensor, " d"]

    def scores(self, inputs: Float[Tensor, "some channel frame mel"]) -> Float[Tensor, " some"]:
        """Cosines with the direction, a bounded number at a time."""
        with torch.no_grad():
            parts = [
                self.encoder.encode(part.to(self.encoder.device, self.encoder.dtype), self.longer.to(self.encoder.device).expand(len(part)))
                for part in inputs.split(AT_ONCE)
            ]
        return F.cosine_similarity(torch.cat(parts).float().cpu(), self.direction.float().cpu()[None], dim=-1)


def silence_of(encoder: Encoder) -> Float[Tensor, "1 channel frame mel"]:
    """The model's input for a window of zeros."""
    policy = encoder.policy
    assert isinstance(policy, Preprocessing), "only sounds have a silence"
    return encoder.prepare(Waveform(np.zeros(policy.samples, np.float32), policy.sample_rate)).features


def cell_numbers(shape: tuple[int, int], frames: int, mels: int) -> Int[Tensor, "frame mel"]:
    """Of every frame and mel band, the number of its cell in a flattened grid of ``shape`` (frequency, time)."""
    row, column = torch.arange(mels) * shape[0] // mels, torch.arange(frames) * shape[1] // frames
    return row[None, :] * shape[1] + column[:, None]


def pooled(values: Float[Tensor, "frame mel"], shape: tuple[int, int]) -> Grid:
    """Summed over the frames and bands of every cell."""
    numbers = cell_numbers(shape, *values.shape)
    return torch.zeros(shape[0] * shape[1], dtype=values.dtype).index_add(0, numbers.flatten(), values.flatten()).view(shape)


def loudness(heard: Heard, shape: tuple[int, int]) -> Grid:
    """How far each cell lies above silence, in the units of the model's input; never negative."""
    return pooled((heard.features - heard.silence).float()[0].mean(0), shape).clamp_min(0)


def evidence(written: TokenMap, heard: Heard) -> Grid:
    """Where a clip speaks for a text: its map above silence's. Coarse tokens are spread over their cells in proportion to loudness.

    Sums to the clip's score above silence's. Cells below zero speak against the text.
    """
    silent = token_map(heard.encoder, heard.silence, torch.tensor([False]), heard.direction)
    weights = loudness(heard, (written.constant.shape[0], written.constant.shape[1])).to(written.constant)
    return written.above(silent, weights).float().cpu()


def gradient_map(heard: Heard, shape: tuple[int, int]) -> Grid:
    """Gradient × input: the slope of the score at every cell of the input, times how far the cell is from silence."""
    encoder = heard.encoder
    inputs = heard.features.to(encoder.device, encoder.dtype).detach().clone().requires_grad_()
    with torch.enable_grad():
        embedding = encoder.encode(inputs, heard.longer.to(encoder.device))
        score = F.cosine_similarity(embedding, heard.direction.to(embedding)[None], dim=-1).sum()
        (slope,) = torch.autograd.grad(score, inputs)
    return pooled((slope.cpu() * (heard.features - heard.silence)).float()[0].sum(0), shape)


def orders(heard: Heard, shares: Grid, draws: int, seed: int) -> dict[str, list[Int[Tensor, " cell"]]]:
    """Cells from the first on, for every order; ``random`` and ``shifted`` several times, from the seed."""
    generator = torch.Generator().manual_seed(seed)
    shape = (shares.shape[0], shares.shape[1])
    found = {"shares": [shares], "gradient": [gradient_map(heard, shape)], "loudness": [loudness(heard, shape)]}
    found["random"] = [torch.rand(shape, generator=generator) for _ in range(draws)]
    moves = [[int(torch.randint(0, n, (1,), generator=generator)) for n in shape] for _ in range(draws)]
    found["shifted"] = [shares.roll(move, (0, 1)) for move in moves]
    return {name: [grid.flatten().argsort(descending=True, stable=True) for grid in grids] for name, grids in found.items()}


def curve_table(heard: Heard, shares: Grid, draws: int = 3, seed: int = 0, fractions: Sequence[float] = FRACTIONS) -> pd.DataFrame:
    """One row per order, draw and fraction of the cells: the score with those cells deleted, and with those cells alone."""
    rows = []
    for name, some in orders(heard, shares, draws, seed).items():
        for draw, order in enumerate(some):
            deletion, insertion = curves(heard, order, (shares.shape[0], shares.shape[1]), fractions)
            rows += [
                {"order": name, "draw": draw, "fraction": f, "deletion": d, "insertion": i}
                for f, d, i in zip(fractions, deletion.tolist(), insertion.tolist(), strict=True)
            ]
    return pd.DataFrame(rows)


def curves(
    heard: Heard, order: Int[Tensor, " cell"], shape: tuple[int, int], fractions: Sequence[float] = FRACTIONS
) -> tuple[Float[Tensor, " fraction"], Float[Tensor, " fraction"]]:
    """Scores with the first cells of an order deleted, and with them alone."""
    frames, mels = heard.features.shape[-2:]
    rank = torch.empty(len(order), dtype=torch.int64)
    rank[order] = torch.arange(len(order))
    at = rank[cell_numbers(shape, frames, mels)]
    first = torch.stack([at < round(f * len(order)) for f in fractions])[:, None]
    deleted, inserted = torch.where(first, heard.silence, heard.features), torch.where(first, heard.features, heard.silence)
    deletion, insertion = heard.scores(torch.cat([deleted, inserted])).split(len(fractions))
    return deletion, insertion


def areas(table: pd.DataFrame) -> pd.DataFrame:
    """The areas under the curves, one row per order: means over draws. ``difference``: insertion − deletion, larger is more faithful."""
    found = []
    for (name, draw), one in table.groupby(["order", "draw"], sort=False):
        one = one.sort_values("fraction")
        under = {kind: float(np.trapezoid(one[kind], one["fraction"])) for kind in ("deletion", "insertion")}
        found.append({"order": name, "draw": draw, **under, "difference": under["insertion"] - under["deletion"]})
    return pd.DataFrame(found).groupby("order", sort=False).mean().drop(columns="draw").reset_index()


def over_clips(by_clip: Mapping[str, pd.DataFrame], groups: Sequence[str] | None = None, seed: int = 0) -> pd.DataFrame:
    """Mean areas over clips with 95 % intervals over groups of them, and of the shares' order against every other, clip by clip."""
    from ..evaluation.significance import mean_interval

    stacked = pd.concat([table.assign(clip=clip) for clip, table in by_clip.items()])
    wide = stacked.pivot(index="clip", columns="order", values="difference").loc[list(by_clip)]
    rows = []
    for name in [n for n in ORDERS if n in wide]:
        own, ahead = mean_interval(wide[name].to_numpy(), groups, seed=seed), wide["shares"] - wide[name]
        against = mean_interval(ahead.to_numpy(), groups, seed=seed)
        means = stacked[stacked.order == name][["deletion", "insertion"]].mean()
        rows.append({"order": name, "clips": len(wide), "deletion": means.deletion, "insertion": means.insertion,
                     "difference": own.value, "low": own.low, "high": own.high,
                     "shares_ahead": against.value, "ahead_low": against.low, "ahead_high": against.high})  # fmt: skip
    return pd.DataFrame(rows)
