"""Where tokens lie on the spectrogram, in seconds and mel bands, whatever the stage and the layout of its windows."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ..audio import Preprocessing
from ..decomposition.layout import window_order
from .encoder import BlockSite, Encoder


def token_places(encoder: Encoder, stage: int) -> Float[Tensor, "token axis"]:
    """(frequency in mel bands, time in seconds) of each token of a stage, in the order of its grid.

    NaN for what has no place: summary tokens, every token of an image, and the frequency of an encoder whose tokens each cover all bands.
    """
    site, policy = encoder.stages[stage], encoder.policy
    tokens = site.grid[0] * site.grid[1]
    rows, columns = site.lattice or site.grid
    if not isinstance(policy, Preprocessing):
        return torch.full((tokens, 2), torch.nan)
    # HTS-AT lays strips of time above each other: a row belongs to a strip, and within it to a frequency.
    per_strip = rows // encoder.strips
    row, column = torch.arange(rows)[:, None].expand(rows, columns), torch.arange(columns).expand(rows, columns)
    time = (row // per_strip * columns + column) * (policy.seconds / (encoder.strips * columns))
    frequency = (row % per_strip) * (policy.mel.mels / per_strip) if per_strip > 1 else torch.full((rows, columns), torch.nan)
    placed = torch.stack([frequency.flatten(), time.flatten()], 1).to(torch.float32)
    return torch.cat([torch.full((tokens - len(placed), 2), torch.nan), placed])


def window_places(encoder: Encoder, site: BlockSite) -> Float[Tensor, "window token axis"]:
    """The same in the layout of a block's attention windows."""
    grid = encoder.stages[site.stage].grid
    order = window_order(grid, site.window, site.shift)
    return token_places(encoder, site.stage)[order].view(-1, site.window**2 or len(order), 2)
