"""The same window attention as transformers', in one fused call instead of a dozen eager ones.

One product gives Q, K and V; ``scaled_dot_product_attention`` adds the position bias and the shift mask, which are
prepared once; where a gradient passes through small windows, batched products take its place (:mod:`.windows`). Outputs
agree with the eager form to rounding. What is prepared is rebuilt when a weight changes;
where the attention's own weights are being trained, the eager form runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MethodType
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from transformers.models.clap.modeling_clap import ClapAudioSelfAttention

from .narrow import NARROW, State, is_narrow, state_of
from .windows import small_enough, small_windows


@dataclass(frozen=True)
class Prepared:
    """Q, K, V stacked in the type that they multiply in, and the position bias, for one state of the weights."""

    state: State
    weight: Float[Tensor, "three_d d"]
    bias: Float[Tensor, " three_d"]
    position: Float[Tensor, "head token token"]


def prepare(attention: ClapAudioSelfAttention, state: State) -> Prepared:
    parts = (attention.query, attention.key, attention.value)
    tokens = attention.window_size[0] * attention.window_size[1]
    # Ordinary tensors even when first needed under inference mode: a later gradient must be able to pass through them.
    with torch.inference_mode(False), torch.no_grad():
        kind = NARROW if is_narrow(attention.query) else attention.query.weight.dtype
        table = attention.relative_position_bias_table[attention.relative_position_index.view(-1)]
        return Prepared(
            state=state,
            weight=torch.cat([p.weight for p in parts]).to(kind),
            bias=torch.cat([p.bias for p in parts]).to(kind),
            position=table.view(tokens, tokens, -1).permute(2, 0, 1).contiguous(),
        )


def fused_forward(
    self: ClapAudioSelfAttention,
    hidden_states: Float[Tensor, "window token d"],
    attention_mask: Float[Tensor, "mask token token"] | None = None,
    output_attentions: bool | None = False,
) -> tuple[Tensor, ...]:
    """Takes the place of ``ClapAudioSelfAttention.forward``."""
    weights = (self.query.weight, self.key.weight, self.value.weight, self.query.bias, self.key.bias, self.value.bias)
    trained = torch.is_grad_enabled() and any(w.requires_grad for w in weights)
    if output_attentions or trained or self.query.bias is None:
        mask: Any = attention_mask  # transformers asks for the type of tensors that torch no longer makes
        return ClapAudioSelfAttention.forward(self, hidden_states, mask, output_attentions)
    state = state_of(*weights, self.relative_position_bias_table)
    ready = self.__dict__.get("_fused")
    if ready is None or ready.state != state:
        ready = self.__dict__["_fused"] = prepare(self, state)
    windows, tokens, width = hidden_states.shape
    heads, d = self.num_attention_heads, self.attention_head_size
    qkv = F.linear(hidden_states.to(ready.weight.dtype), ready.weight, ready.bias)
    if small_enough(qkv):
        position = ready.position if attention_mask is None else (ready.position + attention_mask[:, None]).flatten(0, 1)
        return (small_windows(qkv, position, heads),)
    qkv = qkv.view(windows, tokens, 3, heads, d)
    if attention_mask is None:
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=ready.position[None])
        return (mixed.transpose(1, 2).reshape(windows, tokens, width),)
    # Windows and heads of a clip share one axis, so that the mask of a clip serves all clips without being repeated.
    masks = attention_mask.shape[0]
    clips = windows // masks
    q, k, v = qkv.view(clips, masks, tokens, 3, heads, d).permute(3, 0, 1, 4, 2, 5).reshape(3, clips, masks * heads, tokens, d)
    bias = (ready.position[None] + attention_mask[:, None]).flatten(0, 1)[None]
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    return (mixed.view(clips, masks, heads, tokens, d).transpose(2, 3).reshape(windows, tokens, width),)


def fuse_attention(module: nn.Module) -> None:
    """Let every HTS-AT attention below ``module`` run fused."""
    for part in module.modules():
        if isinstance(part, ClapAudioSelfAttention):
            vars(part)["forward"] = MethodType(fused_forward, part)


def fuse_copy(original: nn.Module, copied: nn.Module) -> None:
    """After a deep copy, whose attention would still run the original's: bind every fused attention to itself."""
    if any("forward" in part.__dict__ for part in original.modules() if isinstance(part, ClapAudioSelfAttention)):
        unfuse_attention(copied)
        fuse_attention(copied)


def unfuse_attention(module: nn.Module) -> None:
    """Back to transformers' own forward."""
    for part in module.modules():
        if isinstance(part, ClapAudioSelfAttention):
            part.__dict__.pop("forward", None)
            part.__dict__.pop("_fused", None)
