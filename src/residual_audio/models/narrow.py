"""An encoder whose products run in bfloat16, while everything that sums stays in float32.

Linear layers and convolutions multiply in bfloat16; so does attention, whose softmax is taken in float32. Inside a block nothing is widened
between one product and the next; what a block writes is added to a stream in float32. Pooling, norms, projections' outputs and whatever is
recorded are float32 or float64. The weights themselves stay as they were loaded: their bfloat16 copies are made once, and again when a
weight changes. The text side stays in float32: prompts are few, and texts that were embedded once serve both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.models.clap.modeling_clap import ClapAudioSelfAttention

from .encoder import Encoder

NARROW = torch.bfloat16
TEXT_SIDE = ("text_model.", "text_projection.")
# A convolution that reads the features themselves has few products, and what it rounded would reach everything.
FEATURE_CHANNELS = 4
# Which weights were prepared: their places in memory, how often they were changed there, and a sample of what they hold.
State = tuple[tuple[int, int, float], ...]
SAMPLED = 64


def state_of(*weights: Tensor) -> State:
    """Differs when a weight was replaced or changed, also through ``.data``, which torch does not count (peft merges so): on a CPU, where
    looking costs little, by a sample of its numbers."""
    return tuple((w.data_ptr(), w._version, _sample(w)) for w in weights)


def _sample(weight: Tensor) -> float:
    if weight.device.type != "cpu":
        return 0.0
    flat = weight.detach().reshape(-1)
    return float(flat[:: max(1, len(flat) // SAMPLED)].sum())


def narrow_weights(layer: nn.Linear | nn.Conv1d | nn.Conv2d) -> tuple[Tensor, Tensor | None]:
    """A layer's weight and bias in bfloat16: kept while they do not change; made anew, with a gradient, while they are trained."""
    weights = [w for w in (layer.weight, layer.bias) if w is not None]
    if torch.is_grad_enabled() and any(w.requires_grad for w in weights):
        ready = [w.to(NARROW) for w in weights]
    else:
        state, kept = state_of(*weights), layer.__dict__.get("_narrow")
        if kept is None or kept[0] != state:
            # Ordinary tensors even when first needed under inference mode: a later gradient must be able to pass through them.
            with torch.inference_mode(False), torch.no_grad():
                kept = layer.__dict__["_narrow"] = (state, [w.to(NARROW) for w in weights])
        ready = kept[1]
    return ready[0], ready[1] if len(ready) > 1 else None


class NarrowLinear(nn.Linear):
    """Multiplies in bfloat16. ``wide``: gives its weights' own type; otherwise bfloat16, for what multiplies or adds it up next."""

    wide: bool

    def forward(self, input: Tensor) -> Tensor:
        out = F.linear(input.to(NARROW), *narrow_weights(self))
        return out.to(self.weight.dtype) if self.wide else out


class NarrowNorm(nn.LayerNorm):
    """Norms in the stream's own type and hands the result to products, which read bfloat16."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).to(NARROW)


class NarrowConv1d(nn.Conv1d):
    """Multiplies in bfloat16, gives its weights' own type."""

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        out: Tensor = super()._conv_forward(input.to(NARROW), *narrow_weights(self))
        return out.to(weight.dtype)


class NarrowConv2d(nn.Conv2d):
    """Multiplies in bfloat16, gives its weights' own type."""

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        out: Tensor = super()._conv_forward(input.to(NARROW), *narrow_weights(self))
        return out.to(weight.dtype)


CONVOLUTIONS: dict[type[nn.Module], type[nn.Module]] = {nn.Conv1d: NarrowConv1d, nn.Conv2d: NarrowConv2d}


def narrow(encoder: Encoder) -> None:
    """Let the products of an encoder's audio or image side run in bfloat16. Names, weights and checkpoints stay as they are."""
    blocks = tuple(f"{site.module}." for site in encoder.sites)
    for name, module in encoder.module.named_modules():
        inside = name.startswith(blocks)
        if f"{name}.".startswith(TEXT_SIDE):
            continue
        if type(module) is nn.Linear:
            module.__class__ = NarrowLinear
            vars(module)["wide"] = not inside
        elif type(module) is nn.LayerNorm and inside:
            module.__class__ = NarrowNorm
        elif type(module) in CONVOLUTIONS and module.in_channels > FEATURE_CHANNELS:
            module.__class__ = CONVOLUTIONS[type(module)]
    for module in encoder.module.modules():
        if isinstance(module, ClapAudioSelfAttention):
            _widen(module)  # the eager form adds a bias in float32; the fused one does not call these
            module.__dict__.pop("_fused", None)


def _widen(attention: nn.Module) -> list[NarrowLinear]:
    """Let an attention's own layers give float32, for an eager softmax; returns those that did not."""
    found = [layer for layer in attention.modules() if isinstance(layer, NarrowLinear) and not layer.wide]
    for layer in found:
        layer.wide = True
    return found


@contextmanager
def widened(attention: nn.Module) -> Iterator[None]:
    """Inside, an attention that forms its weights does so in float32."""
    found = _widen(attention)
    try:
        yield
    finally:
        for layer in found:
            layer.wide = False


def is_narrow(layer: Any) -> bool:
    """Whether this layer multiplies in bfloat16."""
    return isinstance(layer, NarrowLinear)
