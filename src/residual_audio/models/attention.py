"""Attention weights: how a block is made to show them, and what is read off them.

Fused attention never forms the weights. For the time of a recording (:func:`revealed`) the model's own eager attention runs; its outputs
agree to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..decomposition.layout import together
from ..spectra import Sketch
from .encoder import BlockSite, Encoder
from .narrow import widened
from .places import window_places

# What is read off the weights beside their sketch, in this order.
REACH = ("entropy", "time", "frequency", "entropy_rel", "time_rel", "frequency_rel")


@contextmanager
def revealed(encoder: Encoder, sites: tuple[BlockSite, ...]) -> Iterator[None]:
    """Inside, the attention of these blocks returns its weights as the second of its outputs; afterwards all is as before."""
    modules = [encoder.module.get_submodule(site.attention) for site in sites]
    handles, before, wide = [], [], ExitStack()

    def asked(module: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return args, {**options, "output_attentions": True}

    try:
        for module in modules:
            wide.enter_context(widened(module))
            config: Any = getattr(module, "config", None)
            if config is None:  # HTS-AT: its attention is eager wherever it is asked for weights
                handles.append(module.register_forward_pre_hook(asked, with_kwargs=True))
            else:
                before.append((config, config._attn_implementation))
                config._attn_implementation = "eager"
        yield
    finally:
        wide.close()
        for handle in handles:
            handle.remove()
        for config, implementation in reversed(before):
            config._attn_implementation = implementation


@dataclass(frozen=True)
class Gaze:
    """Of a block's heads on each clip: the sketch of their attention matrix, mean over windows, and :data:`REACH`."""

    sketch: Float[Tensor, "clip head size"]
    reach: Float[Tensor, "clip head what"]


@dataclass(frozen=True)
class Reader:
    """Reads the weights of one block. ``size``: numbers that a clip's mean matrix is sketched to (:mod:`..spectra.sketch`)."""

    encoder: Encoder
    site: BlockSite
    size: int

    @cached_property
    def distances(self) -> Float[Tensor, "axis window token token"]:
        """|frequency| and |time| between the tokens of each window; NaN where one of them has no place."""
        places = window_places(self.encoder, self.site)
        return (places[:, :, None] - places[:, None]).abs().permute(3, 0, 1, 2)

    @cached_property
    def even(self) -> Float[Tensor, " what"]:
        """Entropy, time and frequency of a head that looks at all tokens alike that it may look at."""
        may = together(self.encoder.stages[self.site.stage].grid, self.site.window, self.site.shift).float()
        return self._reach((may / may.sum(-1, keepdim=True))[None, :, None])[0, 0]

    def _reach(self, weights: Float[Tensor, "clip window head token token"]) -> Float[Tensor, "clip head what"]:
        """Mean over windows and queries of the entropy, and of the distance to what is looked at; NaN for an axis without places."""
        found = [torch.special.entr(weights).sum(-1).mean((1, 3))]
        for axis in self.distances.to(weights).flip(0):
            known = axis.isfinite()
            # Queries and keys without a place are left out; what is looked at there is no distance.
            total = torch.einsum("cwhqk,wqk->ch", weights, axis.nan_to_num())
            mass = torch.einsum("cwhqk,wqk->ch", weights, known.to(weights))
            found.append(total / mass)
        return torch.stack(found, -1)

    def read(self, weights: Float[Tensor, "_ head token token"]) -> Gaze:
        """``weights``: of all windows of all clips, clip by clip."""
        windows = self.distances.shape[1]
        by_clip = weights.unflatten(0, (-1, windows))
        mean = by_clip.mean(1).flatten(2)
        reach = self._reach(by_clip)
        sketch = Sketch.of(mean.shape[-1], self.size)
        return Gaze(sketch(mean.flatten(0, 1)).unflatten(0, mean.shape[:2]), torch.cat([reach, reach / self.even.to(reach)], -1))
