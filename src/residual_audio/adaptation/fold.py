r"""Write gains into the weights: an ordinary checkpoint with identical outputs and no extra cost.

Every gain is part of an affine map $y = Az + c$ beside a linear layer, and is multiplied into it:

- **heads**: $W_h \leftarrow W_h A_h$ in the head's slice of the output projection, $b \leftarrow b + \sum_h W_h c_h$;
- **blocks, stages**: the attention's write: $W \leftarrow AW$, $b \leftarrow Ab + c$ in the output projection;
- **mlps**: the same in the MLP's last linear layer;
- **embedding**: LAION's in the projection's last layer; Microsoft's act on the pooled output: $W_1 \leftarrow W_1 A$ and, since $W_1$ has
  no bias, the constant goes into the final norm's bias: $\beta \leftarrow \beta + A^{-1} c$ (with the mean dropped simply $\beta - \mu$);
  CLIP's likewise, but behind its one linear layer: $W \leftarrow AW$, $\beta \leftarrow \beta + (AW)^{+} c$.

All are exact. What cannot be folded is refused: gains on the final embedding of an encoder that ends in a norm (Whisper, AST, ViT), and
Microsoft's or CLIP's with the mean kept and a gain of zero.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..models import Encoder
from ..models.copies import copied
from .attach import joint_is_last_linear
from .gain import GainSet, ResiDual


class FoldError(ValueError):
    """Gains that no weight of this encoder can take up."""


def last_linear(module: nn.Module) -> nn.Linear:
    """A linear layer, or the last one inside a module."""
    return [m for m in module.modules() if isinstance(m, nn.Linear)][-1]


def _replace(layer: nn.Linear, weight: Tensor, bias: Tensor | None) -> None:
    layer.weight.copy_(weight)
    if bias is None:
        return
    if layer.bias is None:
        raise FoldError("the layer has no bias to take up the constant")
    layer.bias.copy_(bias)


def fold_heads(layer: nn.Linear, found: GainSet, matrix: Tensor, offset: Tensor) -> None:
    """Into the slices of the output projection; its bias takes up the constants."""
    d = matrix.shape[-1]
    weight, constant = layer.weight.double().clone(), torch.zeros(layer.out_features, dtype=torch.float64, device=layer.weight.device)
    for unit, head in enumerate(found.place.heads):
        columns = slice(head * d, (head + 1) * d)
        constant += weight[:, columns] @ offset[unit]
        weight[:, columns] = weight[:, columns] @ matrix[unit]
    _replace(layer, weight, constant if layer.bias is None else layer.bias.double() + constant)


def fold_write(layer: nn.Linear, matrix: Tensor, offset: Tensor) -> None:
    """Into the layer whose output is reweighted."""
    bias = torch.zeros_like(offset) if layer.bias is None else layer.bias.double()
    _replace(layer, matrix @ layer.weight.double(), matrix @ bias + offset)


def fold_embedding(encoder: Encoder, matrix: Tensor, offset: Tensor) -> None:
    get, readout = encoder.module.get_submodule, encoder.readout
    last = get(readout.linear2 or readout.linear1) if joint_is_last_linear(encoder) else None
    if last is not None and (last.bias is not None or readout.joint == "mlp"):
        fold_write(last, matrix, offset)
        return
    if readout.joint == "none":
        raise FoldError(
            f"{encoder.name} ends in a norm: no linear layer can take up gains on its final embedding; use heads, blocks or mlps"
        )
    first, norm = get(readout.linear1), get(readout.norm)
    weight = first.weight.double()
    # What a shift of the pooled output passes through until it meets the constant.
    folded, way = (weight @ matrix, matrix) if last is None else (matrix @ weight, matrix @ weight)
    # A gain of zero leaves rounding behind, which must not be inverted.
    shift = torch.linalg.pinv(way, atol=1e-10 * (1.0 if last is None else float(torch.linalg.matrix_norm(weight, 2)))) @ offset
    if not torch.allclose(way @ shift, offset, rtol=1e-9, atol=1e-12 * float(offset.abs().max().clamp_min(1))):
        raise FoldError(
            f"{encoder.name}'s projection has no bias, and with a gain of zero the kept mean has nowhere to go; "
            "train with the mean dropped, or keep the gains off zero"
        )
    _replace(first, folded, None)
    norm.bias.add_(shift.to(norm.bias))


@torch.no_grad()
def fold(encoder: Encoder, residual: ResiDual) -> Encoder:
    """A new encoder of the same keys and shapes whose embeddings are those of the attached one; the given one is not changed."""
    folded = copied(encoder)
    get = folded.module.get_submodule
    site_of = {(s.stage, s.block): s for s in folded.sites}
    exact = residual.to(encoder.device, torch.float64)
    # Heads first: a write of the same block is what leaves the layer that the heads are folded into.
    for found in sorted(exact.sets, key=lambda s: s.place.form != "heads"):
        matrix = found.matrix()
        offset = found.offset(matrix, exact.mean)
        if found.place.form == "embedding":
            fold_embedding(folded, matrix[0], offset[0])
        for pair in found.place.blocks:
            site = site_of[pair]
            if found.place.form == "heads":
                fold_heads(get(site.projection), found, matrix, offset)
            else:
                fold_write(last_linear(get(site.mlp)) if found.place.form == "mlps" else get(site.projection), matrix[0], offset[0])
    folded.name = f"{encoder.name}+residual"
    return folded
