"""Every unit's exact direct share of the joint embedding, for clips whose inputs are cached."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ..decomposition.joint import Held, joint_shares
from ..extraction.capture import Capture
from .streams import IN_MEMORY, Streams, room


@torch.no_grad()
def direct_shares(
    inputs: Streams, rows: np.ndarray, units: Sequence[int], size: int = 16, limit: int = IN_MEMORY
) -> Float[Tensor, "row unit d"]:
    """Of the units with these numbers in the table, through held norms; more than ``limit`` bytes are kept in a temporary file."""
    encoder = inputs.encoder
    capture = Capture(encoder, ("embedding", "direct"))
    found: np.ndarray | None = None
    for start in range(0, len(rows), size):
        batch = rows[start : start + size]
        arrays = capture.run(inputs.batch(batch), torch.from_numpy(inputs.longer[batch]).to(encoder.device)).arrays
        shares = arrays["direct.units"][:, list(units)]
        if capture.joint is not None:
            shares = joint_shares(shares, capture.joint, Held(arrays["direct.ratio"], arrays["direct.scale"]))
        found = room((len(rows), *shares.shape[1:]), limit) if found is None else found
        found[start : start + len(batch)] = shares.float().cpu().numpy()
    return torch.from_numpy(np.empty((0, len(units), encoder.dim), dtype=np.float32) if found is None else found)
