"""What was learned inside an encoder's own weights: merged into an ordinary one, or scaled back on the way there."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from ..models import Encoder
from ..models.copies import copied
from .learner import SharedLearner
from .task import Adaptation, Setting
from .train import Epoch


@torch.no_grad()
def between(plain: Encoder, adapted: Encoder, tau: float) -> Encoder:
    """The weights θ + τ(θ′ − θ) on the way from one encoder to another of the same keys and shapes."""
    moved = copied(plain)
    for way, goal in zip(moved.module.parameters(), adapted.module.parameters(), strict=True):
        way.copy_(way.lerp(goal, tau) if tau != 1 else goal)
    moved.name, moved.loading = adapted.name, None
    return moved


@torch.no_grad()
def merged(plain: Encoder, learned: Encoder) -> Encoder:
    """What peft put around the layers of ``learned``, multiplied into them: an encoder of the keys and shapes of ``plain``."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    other, folded = copied(learned), copied(plain)
    for name, part in list(other.module.named_modules()):
        if isinstance(part, BaseTunerLayer):
            part.merge()
            other.module.set_submodule(name, part.get_base_layer())
    folded.module.load_state_dict(other.module.state_dict())
    return renamed(folded, plain)


def renamed(folded: Encoder, plain: Encoder) -> Encoder:
    """No checkpoint has these weights until they are saved."""
    folded.name, folded.loading = f"{plain.name}+residual", None
    return folded


def in_weights(
    plain: Encoder, trained: int, history: list[Epoch], embed: Callable[[Setting], Tensor], fold: Callable[[], Encoder], whole: bool = False
) -> Adaptation:
    """What a method leaves that changes weights; ``whole``: its clips run from the model's inputs."""
    folded = cache(fold)

    def scaled(tau: float) -> Adaptation:
        way = between(plain, folded(), tau)
        return in_weights(plain, trained, history, lambda s: run(way, s, whole), lambda: way, whole)

    return Adaptation(trained, embed, history=history, fold=folded, scaled=scaled)


def run(encoder: Encoder, setting: Setting, whole: bool) -> Tensor:
    """The embeddings of a setting's clips by an encoder of other weights."""
    return SharedLearner(encoder, [], setting.whole if whole else setting.streams).embed(setting.rows).cpu()
