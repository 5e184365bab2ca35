"""LoRA (peft) on queries and values of chosen blocks of the audio encoder; the text side is never touched. It folds."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...options import option
from ..options import EncoderLoop, Selected
from . import method

if TYPE_CHECKING:
    from ...models import Encoder
    from ..learner import WeightLearner
    from ..streams import Streams
    from ..task import Adaptation, FoldTask

TARGETS = ("query", "value", "q_proj", "v_proj")


class LoraError(RuntimeError):
    """LoRA cannot be put here; the message says why."""


@dataclass(frozen=True)
class LoraOptions(EncoderLoop, Selected):
    """Units name the blocks; rank and rate are its own."""

    lora_rank: int = option(4, "Rank of `lora`.", least=1)
    lora_rate: float = option(1e-3, "Learning rate of `lora`; 0 looks for one.", least=0, grid=(1e-3, 5e-3, 2.5e-2))


def attention_parts(encoder: Encoder, blocks: set[tuple[int, int]], targets: Sequence[str] = TARGETS) -> list[str]:
    """The linear layers of these names in the attention of ``blocks``."""
    from torch import nn

    names = []
    for site in encoder.sites:
        if (site.stage, site.block) in blocks:
            attention = encoder.module.get_submodule(site.attention)
            names += [
                f"{site.attention}.{name}"
                for name, part in attention.named_modules()
                if isinstance(part, nn.Linear) and name.rpartition(".")[2] in targets
            ]
    if not names:
        raise LoraError(f"{encoder.name}: no linear layers by the names {', '.join(targets)} in the attention of the chosen blocks")
    return names


def lora_learner(streams: Streams, blocks: set[tuple[int, int]], rank: int, seed: int) -> WeightLearner:
    """On a copy of the encoder. ΔW = BA of rank ``rank``, B from zero, scaled by one: the model starts as it is."""
    peft = need_peft()
    names = either(attention_parts(streams.encoder, blocks))
    return injected(streams, peft.LoraConfig(r=rank, lora_alpha=rank, target_modules=names, lora_dropout=0.0), ".lora_", seed)


def need_peft() -> Any:
    try:
        import peft
    except ImportError as error:
        raise LoraError("this method needs peft: pip install 'residual-audio[peft]'") from error
    return peft


def either(names: Sequence[str]) -> str:
    """A pattern that fits exactly these names."""
    return f"^({'|'.join(re.escape(n) for n in names)})$"


def injected(streams: Streams, config: Any, mark: str, seed: int) -> WeightLearner:
    """A copy of the encoder with peft's layers; those whose names hold ``mark`` are learned."""
    import torch

    from ...models.copies import copied
    from ...models.fused import unfuse_attention
    from ..learner import WeightLearner

    encoder = copied(streams.encoder)
    # The fused attention stacks the plain weights of queries, keys and values: it would not see what is added.
    unfuse_attention(encoder.module)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        encoder.module = need_peft().inject_adapter_in_model(config, encoder.module)
    added = [p for name, p in encoder.module.named_parameters() if mark in name]
    return WeightLearner(encoder, added, streams)


@method("lora", LoraOptions, "low-rank changes of queries and values in the blocks of the units", trained=True, folds=True, order=41)
def lora(task: FoldTask, options: LoraOptions) -> Adaptation:
    from ..loop import learned
    from ..select import choose_places
    from ..weights import in_weights, merged, run

    blocks = {b for p in choose_places(task.encoder.units, options.units) for b in p.blocks}
    learner = lora_learner(task.streams, blocks, options.lora_rank, task.seed)
    trained, history = learned(task, options, learner, options.lora_rate)
    return in_weights(
        task.encoder, trained, history, lambda s: run(learner.encoder, s, False), lambda: merged(task.encoder, learner.encoder)
    )  # fmt: skip
