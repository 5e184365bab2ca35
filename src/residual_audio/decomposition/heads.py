"""Heads and what they write."""

from __future__ import annotations

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor


def split_heads(concatenated: Float[Tensor, "*batch head_x_d_head"], heads: int) -> Float[Tensor, "*batch head d_head"]:
    """The input of the output projection as one vector a head."""
    return concatenated.unflatten(-1, (heads, -1))


def head_weights(out_weight: Float[Tensor, "d_model head_x_d_head"], heads: int) -> Float[Tensor, "head d_model d_head"]:
    """Each head's slice of the output projection."""
    return rearrange(out_weight, "m (h d) -> h m d", h=heads)


def head_contributions(
    heads: Float[Tensor, "*batch head d_head"],
    out_weight: Float[Tensor, "d_model head_x_d_head"],
    out_bias: Float[Tensor, " d_model"] | None = None,
) -> Float[Tensor, "*batch head d_model"]:
    r"""Write each head's output into the residual stream: $c_h = W_h z_h + b/H$.

    Invariant: ``contributions.sum(-2)`` is the attention output. Linear in z, so projecting pooled head outputs
    equals pooling projected ones.
    """
    written = torch.einsum("...hd,hmd->...hm", heads, head_weights(out_weight, heads.shape[-2]))
    return written if out_bias is None else written + out_bias / heads.shape[-2]
