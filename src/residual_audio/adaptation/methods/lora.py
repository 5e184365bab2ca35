"""LoRA (peft) on queries and values of chosen blocks of the audio encoder; the text side is never touched."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...options import option
from ..options import Loop, Selected
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
class LoraOptions(Loop, Selected):
    """Units name the blocks; rank and rate are its own."""

    lora_rank: int = option(4, "Rank of `lora`.", least=1)
    lora_rate: float = option(1e-3, "Learning rate of `lora`; 0 looks for one.", least=0, grid=(1e-3, 5e-3, 2.5e-2))


def lora_targets(encoder: Encoder, blocks: set[tuple[int, int]]) -> list[str]:
    """The queries and values in the attention of ``blocks``, by name."""
    from torch import nn

    names = []
    for site in encoder.sites:
        if (site.stage, site.block) in blocks:
            attention = encoder.module.get_submodule(site.attention)
            names += [
                f"{site.attention}.{name}"
                for name, part in attention.named_modules()
                if isinstance(part, nn.Linear) and name.rpartition(".")[2] in TARGETS
            ]
    if not names:
        raise LoraError(f"{encoder.name}: no queries and values by the names {', '.join(TARGETS)} in the chosen blocks")
    return names


def lora_learner(streams: Streams, blocks: set[tuple[int, int]], rank: int, seed: int) -> WeightLearner:
    """On a copy of the encoder. ΔW = BA of rank ``rank``, B from zero, scaled by one: the model starts as it is."""
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise LoraError("LoRA needs peft: pip install 'residual-audio[lora]'") from error
    import torch

    from ...models.copies import copied
    from ...models.fused import unfuse_attention
    from ..learner import WeightLearner

    encoder = copied(streams.encoder)
    # The fused attention stacks the plain weights of queries, keys and values: it would not see what LoRA adds.
    unfuse_attention(encoder.module)
    names = "|".join(re.escape(n) for n in lora_targets(encoder, blocks))
    config = LoraConfig(r=rank, lora_alpha=rank, target_modules=f"^({names})$", lora_dropout=0.0)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        encoder.module = inject_adapter_in_model(config, encoder.module)
    added = [p for name, p in encoder.module.named_parameters() if ".lora_" in name]
    return WeightLearner(encoder, added, streams)


@method("lora", LoraOptions, "low-rank changes of queries and values in the blocks of the units", trained=True, order=41)
def lora(task: FoldTask, options: LoraOptions) -> Adaptation:
    from ..learner import SharedLearner
    from ..loop import learned
    from ..select import choose_places

    blocks = {b for p in choose_places(task.encoder.units, options.units) for b in p.blocks}
    learner = lora_learner(task.streams, blocks, options.lora_rank, task.seed)
    return learned(
        task, options, learner, options.lora_rate, lambda s: SharedLearner(learner.encoder, [], s.streams).embed(s.rows).cpu()
    )  # fmt: skip
