"""IA³ (peft) in chosen blocks of the audio encoder: a factor per channel of keys, values and the MLP's hidden units. It folds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...options import option
from ..options import EncoderLoop, Selected
from . import method

if TYPE_CHECKING:
    from ..learner import WeightLearner
    from ..streams import Streams
    from ..task import Adaptation, FoldTask

TARGETS = ("key", "value", "k_proj", "v_proj")


@dataclass(frozen=True)
class Ia3Options(EncoderLoop, Selected):
    """Units name the blocks; the rate is its own."""

    ia3_rate: float = option(0.02, "Learning rate of `ia3`; 0 looks for one.", least=0, grid=(4e-3, 0.02, 0.1))


def ia3_learner(streams: Streams, blocks: set[tuple[int, int]], seed: int) -> WeightLearner:
    """On a copy of the encoder; factors start at one, so that the model starts as it is."""
    from ..modules import mlp_layer
    from .lora import attention_parts, either, injected, need_peft

    encoder = streams.encoder
    attention = attention_parts(encoder, blocks, TARGETS)
    hidden = [mlp_layer(encoder, s) for s in encoder.sites if s.key in blocks]
    config = need_peft().IA3Config(target_modules=either([*attention, *hidden]), feedforward_modules=either(hidden))
    return injected(streams, config, ".ia3_", seed)


@method("ia3", Ia3Options, "a factor per channel of keys, values and hidden units in the units' blocks", trained=True, folds=True, order=45)
def ia3(task: FoldTask, options: Ia3Options) -> Adaptation:
    from ..loop import learned
    from ..select import choose_places
    from ..weights import in_weights, merged, run

    blocks = {b for p in choose_places(task.encoder.units, options.units) for b in p.blocks}
    learner = ia3_learner(task.streams, blocks, task.seed)
    trained, history = learned(task, options, learner, options.ia3_rate)
    return in_weights(
        task.encoder, trained, history, lambda s: run(learner.encoder, s, False), lambda: merged(task.encoder, learner.encoder)
    )  # fmt: skip
