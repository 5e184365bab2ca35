"""What happens to a log-mel each time that it is seen: another loudness, colour and start, and one band missing."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def augmented(mels: Tensor, rng: np.random.Generator) -> Tensor:
    """``[clip, frame, mel]``, in decibels."""
    mels = mels.float()
    clips, _, bands = mels.shape
    place = np.arange(bands)
    level = rng.uniform(-10, 10, (clips, 1)).repeat(bands, 1)
    for _ in range(2):
        centre, width = rng.uniform(0, bands, (clips, 1)), rng.uniform(4, 20, (clips, 1))
        height = rng.normal(0, 4, (clips, 1)) * (rng.random((clips, 1)) < 0.6)
        level = level + height * np.exp(-0.5 * ((place - centre) / width) ** 2)
    mels = mels + torch.from_numpy(level.astype(np.float32))[:, None]
    for i in range(clips):
        if rng.random() < 0.6:
            mels[i] = mels[i].roll(int(rng.integers(-60, 61)), 0)
        if rng.random() < 0.3:
            start, width = int(rng.integers(0, bands - 8)), int(rng.integers(2, 8))
            mels[i, :, start : start + width] = mels[i].mean()
    return mels
