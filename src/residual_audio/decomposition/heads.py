"""Heads and what they write."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


def split_heads(concatenated: Float[Tensor, "*batch head_x_d_head"], heads: int) -> Float[Tensor, "*batch head d_head"]:
    """The input of the output projection as one vector per head."""
    return concatenated.unflatten(-1, (heads, -1))


def head_weights(out_weight: Float[Tensor, "d_model head_x_d_head"], heads: int) -> Float[Tensor, "head d_model d_head"]:
    """Each head's slice of the output projection."""
    return out_weight.unflatten(1, (heads, -1)).movedim(1, 0)


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


@dataclass(frozen=True)
class Frame:
    r"""Contributions of a block's heads in ``d_head`` coordinates of their own, without loss: $W_h = Q_h R_h$.

    A contribution $c = W_h z + b/H$ is $Q_h y$ plus a constant of length ``rest`` orthogonal to it, where
    $y = R_h z + Q_h^\top b/H$. Distances, variances and scatter of y are those of c; $|c|^2 = |y|^2 + rest^2$.
    """

    q: Float[Tensor, "head d_model d_head"]
    r: Float[Tensor, "head d_head d_head"]
    offset: Float[Tensor, "head d_head"]
    rest: Float[Tensor, " head"]

    def coordinates(self, heads: Float[Tensor, "*batch head d_head"]) -> Float[Tensor, "*batch head d_head"]:
        """y of each head output."""
        return torch.einsum("...hd,hed->...he", heads, self.r) + self.offset

    @property
    def rank(self) -> Float[Tensor, " head"]:
        """Of each head's slice of the projection: no contribution has more dimensions."""
        return torch.linalg.matrix_rank(self.r).to(self.r.dtype)


def contribution_frame(out_weight: Float[Tensor, "d_model head_x_d_head"], out_bias: Float[Tensor, " d_model"] | None, heads: int) -> Frame:
    """The frames of one block, in float64."""
    q, r = torch.linalg.qr(head_weights(out_weight.to(torch.float64), heads))
    bias = out_weight.new_zeros(out_weight.shape[0]) if out_bias is None else out_bias
    each = bias.to(torch.float64) / heads
    offset = torch.einsum("hmd,m->hd", q, each)
    rest = (each.square().sum() - offset.square().sum(-1)).clamp_min(0).sqrt()
    return Frame(q, r, offset, rest)
