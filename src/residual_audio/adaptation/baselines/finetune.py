"""Full fine-tuning: every weight on the way from the audio to the embedding."""

from __future__ import annotations

import numpy as np
from torch import nn

from ...models import Encoder
from ...models.copies import copied
from ..learner import WeightLearner
from ..streams import Streams


def audio_weights(encoder: Encoder, streams: Streams) -> list[nn.Parameter]:
    """The parameters that one clip's embedding depends on: those of the audio side, and no others."""
    for parameter in encoder.module.parameters():
        parameter.requires_grad_(True)
    streams.run(np.array([0]), encoder).sum().backward()
    found = [p for p in encoder.module.parameters() if p.grad is not None]
    encoder.module.zero_grad(set_to_none=True)
    return found


def finetune_learner(streams: Streams) -> WeightLearner:
    """On a copy of the encoder, from the model's inputs; norms keep their statistics and dropout stays off, as in inference."""
    encoder = copied(streams.encoder)
    return WeightLearner(encoder, audio_weights(encoder, streams), streams)
