r"""A scale and a shift per channel, $y = \gamma \odot x + \beta$, behind named layers; folded into them.

- behind a norm (its own scale w and shift b): $w \leftarrow \gamma w$, $b \leftarrow \gamma b + \beta$;
- behind the linear layer of a patch merge, which has no bias but a norm before it: $W \leftarrow \gamma W$ and, since W is onto,
  $b \leftarrow b + W^{+} \beta$ in that norm.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..models import Encoder
from ..models.copies import copied
from ..models.folding import FoldError
from .learner import SharedLearner, frozen
from .streams import Rows, Streams
from .task import Adaptation, FoldTask
from .weights import in_weights, renamed

Norm = nn.LayerNorm | nn.BatchNorm2d


@dataclass(frozen=True)
class Tap:
    """Behind ``layer``, whose channels lie along ``axis``; ``norm``: the one before it, where the layer is linear and has no bias."""

    layer: str
    channels: int
    axis: int = -1
    norm: str | None = None

    def shaped(self, values: Float[Tensor, " channel"], like: Tensor) -> Tensor:
        """To be broadcast against the layer's output."""
        shape = [1] * like.ndim
        shape[self.axis] = -1
        return values.view(shape)


@contextmanager
def modulated(encoder: Encoder, taps: list[Tap], values: list[Tensor]) -> Iterator[None]:
    """Inside, the outputs of the taps' layers are scaled and shifted: ``values`` are γ and β of one tap after the other."""
    with ExitStack() as stack:
        for tap, gamma, beta in zip(taps, values[::2], values[1::2], strict=True):

            def change(module: nn.Module, args: Any, out: Tensor, tap: Tap = tap, gamma: Tensor = gamma, beta: Tensor = beta) -> Tensor:
                return out * tap.shaped(gamma, out) + tap.shaped(beta, out)

            stack.callback(encoder.module.get_submodule(tap.layer).register_forward_hook(change).remove)
        yield


class ModulationLearner(SharedLearner):
    """Scales and shifts, everything else frozen."""

    def __init__(self, taps: list[Tap], streams: Streams) -> None:
        encoder = streams.encoder
        start = [torch.full((tap.channels,), value, device=encoder.device, dtype=encoder.dtype) for tap in taps for value in (1.0, 0.0)]
        super().__init__(encoder, [values.requires_grad_() for values in start], streams)
        self.taps = taps

    def ready(self, encoder: Encoder) -> AbstractContextManager[Any]:
        return modulated(encoder, self.taps, self.parameters)

    def forward(self, rows: Rows) -> Float[Tensor, "row d"]:
        with frozen(self.streams.encoder):
            return super().forward(rows)


def fold_norm(layer: Norm, gamma: Float[Tensor, " channel"], beta: Float[Tensor, " channel"]) -> None:
    layer.bias.copy_(gamma * layer.bias.double() + beta)
    layer.weight.copy_(gamma * layer.weight.double())


def fold_merge(layer: nn.Linear, norm: nn.LayerNorm, gamma: Float[Tensor, " channel"], beta: Float[Tensor, " channel"]) -> None:
    weight = gamma[:, None] * layer.weight.double()
    shift = torch.linalg.pinv(weight) @ beta
    if not torch.allclose(weight @ shift, beta, rtol=1e-6, atol=1e-9):
        raise FoldError("a scale of zero leaves the shift of a patch merge nowhere to go; learn with a smaller rate")
    layer.weight.copy_(weight)
    norm.bias.add_(shift.to(norm.bias))


@torch.no_grad()
def fold_modulation(encoder: Encoder, taps: list[Tap], values: list[Tensor]) -> Encoder:
    """A new encoder of the same keys and shapes; the given one is not changed."""
    folded = copied(encoder)
    for tap, gamma, beta in zip(taps, values[::2], values[1::2], strict=True):
        layer = folded.module.get_submodule(tap.layer)
        if tap.norm is not None:
            fold_merge(folded.linear(tap.layer), folded.layer_norm(tap.norm), gamma.double(), beta.double())
        else:
            assert isinstance(layer, Norm), f"{tap.layer} is no norm, and has none before it"
            fold_norm(layer, gamma.double(), beta.double())
    return renamed(folded, encoder)


def learned_modulation(task: FoldTask, options: Any, taps: list[Tap], rate: float, whole: bool = False) -> Adaptation:
    """Learn scales and shifts; ``whole``: from the model's inputs."""
    from .loop import learned

    learner = ModulationLearner(taps, task.setting.whole if whole else task.streams)
    trained, history = learned(task, options, learner, rate)
    values = [p.detach() for p in learner.parameters]

    def embed(setting: Any) -> Tensor:
        again = ModulationLearner(taps, setting.whole if whole else setting.streams)
        again.parameters = values
        return again.embed(setting.rows).cpu()

    return in_weights(task.encoder, trained, history, embed, lambda: fold_modulation(task.encoder, taps, values), whole)
