"""Learn through the weights: what is attached beside a linear layer is multiplied into it for the time of a step, with its gradient.

The products are those of the plain model, and one per layer for the gradient of the numbers. Attached instead, every change is a product
over all tokens, there and back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import torch.nn.functional as F
from torch import Tensor, nn

from ..models import Encoder
from ..models.folding import write_changed
from .attach import ONE_PRODUCT, attached
from .fold import heads_changed
from .gain import GainSet, ResiDual
from .modules import modules_of


def pays(gains: GainSet, layers: list[nn.Module]) -> bool:
    """Whether fewer multiplications are left; layers that are more than linear ones take nothing up.

    Attached, a change of d numbers costs 3 d² per token: there, back, and its gradient. Inlaid, it costs the gradient of the layer's
    weights. Wide heads are changed head by head, which costs less than either.
    """
    if gains.place.kind == "heads":
        return all(type(layer) is nn.Linear and layer.in_features <= ONE_PRODUCT for layer in layers)
    return all(type(layer) is nn.Linear and layer.in_features < 3 * layer.out_features for layer in layers)


@contextmanager
def _weighing(layer: nn.Linear, weight: Tensor, bias: Tensor) -> Iterator[None]:
    """Inside, the layer multiplies by these instead of its own weights."""
    vars(layer)["forward"] = lambda x: F.linear(x, weight, bias)
    try:
        yield
    finally:
        del vars(layer)["forward"]


@contextmanager
def inlaid(encoder: Encoder, residual: ResiDual, values: Sequence[Tensor]) -> Iterator[None]:
    """Inside, ``encoder.resume`` gives what it gives inside :func:`attached`, to rounding, and a gradient reaches ``values``.

    For learning only: whoever records heads or writes in here sees some of them before they are changed.
    """
    changed: dict[str, tuple[Tensor, Tensor]] = {}
    left: list[tuple[GainSet, Tensor]] = []
    # Heads first, as in folding.
    for one, numbers in sorted(zip(residual.sets, values, strict=True), key=lambda pair: pair[0].place.kind != "heads"):
        names = modules_of(one.place, encoder)
        if one.place.kind == "embedding" or not pays(one, [encoder.module.get_submodule(name) for name in names]):
            left.append((one, numbers))
            continue
        matrix = one.matrix(numbers)
        offset = one.offset(matrix, residual.mean)
        for name in names:
            layer = encoder.linear(name)
            weight, bias = changed.get(name, (layer.weight, layer.bias))
            if one.place.kind == "heads":
                changed[name] = heads_changed(weight, bias, one, matrix, offset)
            else:
                changed[name] = write_changed(weight, bias, matrix[0], offset[0])
    with ExitStack() as stack:
        for name, (weight, bias) in changed.items():
            stack.enter_context(_weighing(encoder.linear(name), weight, bias))
        stack.enter_context(attached(encoder, replace(residual, sets=tuple(one for one, _ in left)), [numbers for _, numbers in left]))
        yield
