r"""How a linear layer takes up an affine map beside it: $y = A(Wx + b) + c$ is $W \leftarrow AW$, $b \leftarrow Ab + c$."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


class FoldError(ValueError):
    """Gains that no weight of this encoder can take up."""


def replace_weights(layer: nn.Linear, weight: Float[Tensor, "out in"], bias: Float[Tensor, " out"] | None) -> None:
    """Write both into the layer; None leaves its bias as it is."""
    layer.weight.copy_(weight)
    if bias is None:
        return
    if layer.bias is None:
        raise FoldError("the layer has no bias to take up the constant")
    layer.bias.copy_(bias)


def fold_write(layer: nn.Linear, matrix: Float[Tensor, "out out"], offset: Float[Tensor, " out"]) -> None:
    """Into the layer whose output is changed."""
    replace_weights(layer, *write_changed(layer.weight.double(), None if layer.bias is None else layer.bias.double(), matrix, offset))


def write_changed(
    weight: Float[Tensor, "out in"], bias: Float[Tensor, " out"] | None, matrix: Float[Tensor, "out out"], offset: Float[Tensor, " out"]
) -> tuple[Float[Tensor, "out in"], Float[Tensor, " out"]]:
    """The weights of a layer whose output is changed; differentiable."""
    return matrix @ weight, offset if bias is None else torch.addmv(offset, matrix, bias)
