r"""Write what was learned into the weights: an ordinary checkpoint with identical outputs and no extra cost.

Every form is an affine map $y = Az + c$ beside a linear layer, and is multiplied into it:

- **heads**: $W_h \leftarrow W_h A_h$ in the head's slice of the output projection, $b \leftarrow b + \sum_h W_h c_h$;
- **blocks, stages**: the attention's write: $W \leftarrow AW$, $b \leftarrow Ab + c$ in the output projection;
- **mlps**: the same in the MLP's last linear layer;
- **embedding**: as the encoder's readout does it (:mod:`residual_audio.models.readout`).

All are exact. What cannot be folded is refused: gains on the final embedding of an encoder that ends in a norm (Whisper, AST, ViT), and
Microsoft's or CLIP's with the mean kept and a gain of zero.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..models import Encoder
from ..models.copies import copied
from ..models.folding import FoldError, fold_write, replace_weights
from .card import folded_card
from .gain import GainSet, ResiDual
from .modules import mlp_layer

__all__ = ["FoldError", "fold", "fold_heads"]


def heads_changed(
    weight: Float[Tensor, "out in"],
    bias: Float[Tensor, " out"] | None,
    gains: GainSet,
    matrix: Float[Tensor, "unit d d"],
    offset: Float[Tensor, "unit d"],
) -> tuple[Float[Tensor, "out in"], Float[Tensor, " out"]]:
    """The weights of an output projection that changes the heads of a place itself; differentiable."""
    by_head = weight.unflatten(1, (-1, matrix.shape[-1]))
    chosen = torch.tensor(gains.place.heads, device=weight.device)
    ours = by_head.index_select(1, chosen)
    constant = torch.einsum("ohd,hd->o", ours, offset)
    turned = by_head.index_copy(1, chosen, torch.einsum("ohe,hed->ohd", ours, matrix))
    return turned.flatten(1), constant if bias is None else bias + constant


def fold_heads(layer: nn.Linear, gains: GainSet, matrix: Float[Tensor, "unit d d"], offset: Float[Tensor, "unit d"]) -> None:
    """Into the slices of the output projection; its bias takes up the constants."""
    bias = None if layer.bias is None else layer.bias.double()
    replace_weights(layer, *heads_changed(layer.weight.double(), bias, gains, matrix, offset))


@torch.no_grad()
def fold(encoder: Encoder, residual: ResiDual) -> Encoder:
    """A new encoder of the same keys and shapes whose embeddings are those of the attached one; the given one is not changed."""
    folded = copied(encoder)
    site_of = {site.key: site for site in folded.sites}
    exact = residual.to(encoder.device, torch.float64)
    # Heads first: a write of the same block is what leaves the layer that the heads are folded into.
    for gains in sorted(exact.sets, key=lambda s: s.place.kind != "heads"):
        matrix = gains.matrix()
        offset = gains.offset(matrix, exact.mean)
        if gains.place.kind == "embedding":
            folded.readout.fold(matrix[0], offset[0])
        for block in gains.place.blocks:
            site = site_of[block]
            if gains.place.kind == "heads":
                fold_heads(folded.linear(site.projection), gains, matrix, offset)
            elif gains.place.kind == "mlps":
                fold_write(folded.linear(mlp_layer(folded, site)), matrix[0], offset[0])
            else:
                fold_write(folded.linear(site.projection), matrix[0], offset[0])
    folded.name = f"{encoder.name}+residual"
    folded.card = folded_card(encoder, residual)
    folded.loading = None  # no checkpoint has these weights until they are saved
    return folded
