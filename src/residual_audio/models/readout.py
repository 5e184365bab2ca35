r"""From the last stream to the embedding: a norm, a mean over tokens, and (or not) a projection into the joint space.

Each kind of readout owns its weights, its nonlinearity, and how a change of the final embedding is attached and folded:

- :class:`PooledReadout`: the pooled output is the embedding. A norm cannot take up a matrix, so nothing folds.
- :class:`LinearReadout`: $Wx$ (CLIP). The change acts on the embedding: $W \leftarrow AW$; where W has no bias, the constant goes into the
  final norm's bias: $\beta \leftarrow \beta + (AW)^{+} c$.
- :class:`MlpReadout`: $W_2\,\mathrm{act}(W_1 x + b_1) + b_2$ (LAION). The change acts on the embedding and folds into $W_2$ and $b_2$.
- :class:`ResidualReadout`: $\mathrm{LN}(e + W_2\,\mathrm{act}(e)),\ e = W_1 x$ (Microsoft). The change acts on the pooled output:
  $W_1 \leftarrow W_1 A$ and, since $W_1$ has no bias, $\beta \leftarrow \beta + A^{-1} c$.

Invariant: ``read(stream)`` of the stream that leaves the last block is the embedding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..decomposition.direct import Norm
from ..decomposition.joint import Held, JointWeights, hold
from .folding import FoldError, fold_write, replace_weights

if TYPE_CHECKING:
    from .encoder import Encoder

Change = Callable[[Tensor], Tensor]
Part = TypeVar("Part", bound=nn.Module)


def norm_weights(layer: nn.LayerNorm) -> Norm:
    """A norm's parameters as the decomposition takes them."""
    return Norm(layer.weight.detach(), layer.bias.detach(), layer.eps)


def _detached(parameter: Tensor | None) -> Tensor | None:
    return None if parameter is None else parameter.detach()


@dataclass(frozen=True, kw_only=True)
class Readout(ABC):
    """``norm`` and the other names are paths below the encoder's module; the mean is over ``tokens`` (None: all)."""

    norm: str
    tokens: tuple[int, ...] | None = None
    module: nn.Module | None = field(default=None, repr=False, compare=False)

    def bound(self, module: nn.Module) -> Readout:
        """The same with the weights of ``module``."""
        return replace(self, module=module)

    def part(self, name: str, kind: type[Part]) -> Part:
        """The sub-module of that name."""
        if self.module is None:
            raise RuntimeError("a readout is used through its encoder: encoder.readout")
        layer = self.module.get_submodule(name)
        assert isinstance(layer, kind), f"{name} is a {type(layer).__name__}, not a {kind.__name__}"
        return layer

    @property
    def final_norm(self) -> nn.LayerNorm:
        return self.part(self.norm, nn.LayerNorm)

    def pool(self, stream: Float[Tensor, "clip token width"]) -> Float[Tensor, "clip width"]:
        """The pooled output."""
        normed: Tensor = self.final_norm(stream)
        return (normed if self.tokens is None else normed[:, list(self.tokens)]).mean(1)

    def pool_weights(self, tokens: int) -> Float[Tensor, " token"]:
        """The weight of each of so many tokens in the pooled output."""
        like = self.final_norm.weight
        chosen = self.tokens or range(tokens)
        weights = torch.zeros(tokens, dtype=like.dtype, device=like.device)
        weights[list(chosen)] = 1 / len(chosen)
        return weights

    def project(self, pooled: Float[Tensor, "clip width"]) -> Float[Tensor, "clip d"]:
        """From the pooled output to the embedding."""
        return pooled

    def read(self, stream: Float[Tensor, "clip token width"]) -> Float[Tensor, "clip d"]:
        """From the stream that leaves the last block to the embedding."""
        return self.project(self.pool(stream))

    @property
    def pooled_at(self) -> str | None:
        """The sub-module whose input is the pooled output; None where the pooled output is the embedding."""
        return None

    def joint_weights(self) -> JointWeights | None:
        """The projection as the decomposition takes it; None where the pooled output is the embedding."""
        return None

    @property
    def activation(self) -> Change:
        """The nonlinearity inside the projection."""
        return nn.Identity()

    def hold(self, pooled: Float[Tensor, "clip width"]) -> Held | None:
        """What is held of the projection at this pooled output."""
        weights = self.joint_weights()
        return None if weights is None else hold(pooled, weights, self.activation)

    @property
    def changes_pooled(self) -> bool:
        """Whether a change of the final embedding acts on the pooled output, before the projection."""
        return False

    @property
    def width(self) -> int:
        """Of what a change of the final embedding acts on."""
        return int(self.final_norm.normalized_shape[0])

    @property
    def folds(self) -> bool:
        """Whether some weight can take up a change of the final embedding."""
        return True

    @contextmanager
    def changed(self, encoder: Encoder, change: Change) -> Iterator[None]:
        """Inside, the encoder's final embedding is changed; here: what ``encode`` and ``read`` return."""
        encode, read = encoder.encode, encoder.read

        def changed_encode(*args: Any) -> Tensor:
            return change(encode(*args))

        def changed_read(stream: Tensor) -> Tensor:
            return change(read(stream))

        vars(encoder).update(encode=changed_encode, read=changed_read)
        try:
            yield
        finally:
            del vars(encoder)["encode"], vars(encoder)["read"]

    @abstractmethod
    def fold(self, matrix: Float[Tensor, "d d"], offset: Float[Tensor, " d"]) -> None:
        """Write the change x → matrix · x + offset into the weights."""


@dataclass(frozen=True, kw_only=True)
class PooledReadout(Readout):
    """The pooled output is the embedding."""

    @property
    def folds(self) -> bool:
        return False

    def fold(self, matrix: Float[Tensor, "d d"], offset: Float[Tensor, " d"]) -> None:
        raise FoldError("this encoder ends in a norm: no linear layer can take up gains on its final embedding; use heads, blocks or mlps")


@dataclass(frozen=True, kw_only=True)
class LinearReadout(Readout):
    """One linear layer, ``first``."""

    first: str

    @property
    def first_layer(self) -> nn.Linear:
        return self.part(self.first, nn.Linear)

    @property
    def pooled_at(self) -> str | None:
        return self.first

    @property
    def width(self) -> int:
        return self.first_layer.out_features

    def project(self, pooled: Float[Tensor, "clip width"]) -> Float[Tensor, "clip d"]:
        embedding: Tensor = self.first_layer(pooled)
        return embedding

    def joint_weights(self) -> JointWeights:
        weight = self.first_layer.weight.detach()
        identity = torch.eye(len(weight), dtype=weight.dtype, device=weight.device)
        return JointWeights(weight, identity, _detached(self.first_layer.bias))

    def fold(self, matrix: Float[Tensor, "d d"], offset: Float[Tensor, " d"]) -> None:
        if self.first_layer.bias is not None:
            fold_write(self.first_layer, matrix, offset)
            return
        weight = self.first_layer.weight.double()
        shift = self._shift(matrix @ weight, offset, float(torch.linalg.matrix_norm(weight, 2)))
        replace_weights(self.first_layer, matrix @ weight, None)
        self.final_norm.bias.add_(shift.to(self.final_norm.bias))

    def _shift(self, way: Float[Tensor, "out width"], offset: Float[Tensor, " out"], scale: float) -> Float[Tensor, " width"]:
        """What must be added to the pooled output, which passes through ``way``, so that the constant comes out."""
        # A gain of zero leaves rounding behind, which must not be inverted.
        shift: Tensor = torch.linalg.pinv(way, atol=1e-10 * scale) @ offset
        if not torch.allclose(way @ shift, offset, rtol=1e-9, atol=1e-12 * float(offset.abs().max().clamp_min(1))):
            raise FoldError(
                "the projection of this encoder has no bias, and with a gain of zero the kept mean has nowhere to go; "
                "train with the mean dropped, or keep the gains off zero"
            )
        return shift


@dataclass(frozen=True, kw_only=True)
class MlpReadout(LinearReadout):
    """Linear, activation, linear: the layers ``first`` and ``second`` of one module, which has the ``activation``."""

    second: str

    @property
    def second_layer(self) -> nn.Linear:
        return self.part(self.second, nn.Linear)

    @property
    def projection(self) -> nn.Module:
        """The module that both layers belong to."""
        return self.part(self.first.rpartition(".")[0], nn.Module)

    @property
    def activation(self) -> Change:
        return self.part(f"{self.first.rpartition('.')[0]}.activation", nn.Module)

    @property
    def width(self) -> int:
        return self.second_layer.out_features

    def project(self, pooled: Float[Tensor, "clip width"]) -> Float[Tensor, "clip d"]:
        embedding: Tensor = self.projection(pooled)
        return embedding

    def joint_weights(self) -> JointWeights:
        first, second = self.first_layer, self.second_layer
        return JointWeights(first.weight.detach(), second.weight.detach(), _detached(first.bias), _detached(second.bias))

    def fold(self, matrix: Float[Tensor, "d d"], offset: Float[Tensor, " d"]) -> None:
        fold_write(self.second_layer, matrix, offset)


@dataclass(frozen=True, kw_only=True)
class ResidualReadout(MlpReadout):
    """A residual MLP around a GELU, closed by ``joint_norm``; a change acts on the pooled output before it."""

    joint_norm: str

    @property
    def activation(self) -> Change:
        return nn.functional.gelu

    @property
    def changes_pooled(self) -> bool:
        return True

    @property
    def width(self) -> int:
        return self.first_layer.in_features

    def joint_weights(self) -> JointWeights:
        norm = norm_weights(self.part(self.joint_norm, nn.LayerNorm))
        return replace(super().joint_weights(), norm=norm)

    @contextmanager
    def changed(self, encoder: Encoder, change: Change) -> Iterator[None]:
        """Inside, the pooled output is changed on its way into the projection."""
        handle = self.first_layer.register_forward_pre_hook(lambda module, args: (change(args[0]),))
        try:
            yield
        finally:
            handle.remove()

    def fold(self, matrix: Float[Tensor, "d d"], offset: Float[Tensor, " d"]) -> None:
        shift = self._shift(matrix, offset, 1.0)
        replace_weights(self.first_layer, self.first_layer.weight.double() @ matrix, None)
        self.final_norm.bias.add_(shift.to(self.final_norm.bias))
