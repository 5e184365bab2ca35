"""Full fine-tuning: every weight on the way from the audio to the embedding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...options import option
from ..options import EncoderLoop
from . import method

if TYPE_CHECKING:
    from torch import nn

    from ...models import Encoder
    from ..learner import WeightLearner
    from ..streams import Streams
    from ..task import Adaptation, FoldTask


@dataclass(frozen=True)
class FinetuneOptions(EncoderLoop):
    """Its own rate: weights want small steps."""

    finetune_rate: float = option(1e-4, "Learning rate of `finetune`; 0 looks for one.", least=0, grid=(2e-5, 1e-4, 5e-4))


def audio_weights(encoder: Encoder, streams: Streams) -> list[nn.Parameter]:
    """The parameters that one clip's embedding depends on: those of the audio side, and no others."""
    import numpy as np

    for parameter in encoder.module.parameters():
        parameter.requires_grad_(True)
    streams.run(np.array([0]), encoder).sum().backward()
    reached = [p for p in encoder.module.parameters() if p.grad is not None]
    encoder.module.zero_grad(set_to_none=True)
    return reached


def finetune_learner(streams: Streams) -> WeightLearner:
    """On a copy of the encoder, from the model's inputs; norms keep their statistics and dropout stays off, as in inference."""
    from ...models.copies import copied
    from ..learner import WeightLearner

    encoder = copied(streams.encoder)
    return WeightLearner(encoder, audio_weights(encoder, streams), streams)


@method("finetune", FinetuneOptions, "full fine-tuning: every weight of the audio side", whole=True, trained=True, folds=True, order=42)
def finetune(task: FoldTask, options: FinetuneOptions) -> Adaptation:
    from ..loop import learned
    from ..weights import in_weights, renamed, run

    learner = finetune_learner(task.setting.whole)
    trained, history = learned(task, options, learner, options.finetune_rate)
    plain = task.encoder
    return in_weights(plain, trained, history, lambda s: run(learner.encoder, s, True), lambda: renamed(learner.encoder, plain), whole=True)
