"""Every unit's exact direct share of the joint embedding, for clips whose inputs are cached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ..models.pathways import Pathways
from ..models.readings import DIRECT
from ..models.readings import direct_shares as shares_of
from ..models.recording import recorded
from .streams import IN_MEMORY, Rows, Streams, room


@torch.no_grad()
def direct_shares(inputs: Streams, rows: Rows, units: Sequence[int], size: int = 16, limit: int = IN_MEMORY) -> Float[Tensor, "row unit d"]:
    """Of the units with these numbers in the table, through held norms; more than ``limit`` bytes are kept in a temporary file."""
    encoder, ways = inputs.encoder, Pathways(inputs.encoder)
    values: np.ndarray | None = None
    for start in range(0, len(rows), size):
        batch = rows[start : start + size]
        recording = recorded(encoder, inputs.batch(batch), torch.from_numpy(inputs.longer[batch]).to(encoder.device), DIRECT)
        shares = shares_of(recording, ways)
        joint, _ = replace(shares, units=shares.units[:, list(units)]).joint(ways.joint)
        values = room((len(rows), *joint.shape[1:]), limit) if values is None else values
        values[start : start + len(batch)] = joint.float().cpu().numpy()
    return torch.from_numpy(np.empty((0, len(units), encoder.dim), dtype=np.float32) if values is None else values)
