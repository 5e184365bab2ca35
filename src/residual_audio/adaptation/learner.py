"""What can be trained: something with parameters that gives clips their embeddings. One loop (train.py) trains them all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..models import Encoder
from ..models.copies import Cores
from .attach import attached
from .gain import ResiDual
from .streams import Rows, Streams


@contextmanager
def frozen(encoder: Encoder) -> Iterator[None]:
    """Inside, no weight of the encoder asks for a gradient."""
    asked = [p for p in encoder.module.parameters() if p.requires_grad]
    for parameter in asked:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in asked:
            parameter.requires_grad_(True)


@runtime_checkable
class Learner(Protocol):
    """``forward`` gives embeddings and remembers how they came about; ``backward`` takes their gradient on to the parameters."""

    parameters: list[Tensor]

    def forward(self, rows: Rows) -> Tensor: ...

    def backward(self, gradient: Tensor) -> None: ...

    def embed(self, rows: Rows) -> Tensor: ...


class GainLearner:
    """Gains on cached streams, everything else frozen; every core takes its own part of a batch."""

    def __init__(self, residual: ResiDual, streams: Streams) -> None:
        encoder = streams.encoder
        self.residual, self.streams = residual.to(encoder.device, encoder.dtype), streams
        self.parameters = [s.gain.clone().requires_grad_() for s in self.residual.sets]
        self.cores = Cores(encoder)

    def _split(self, rows: Rows) -> list[Rows]:
        return np.array_split(rows, max(1, min(self.cores.count, len(rows))))

    def forward(self, rows: Rows) -> Float[Tensor, "row d"]:
        def run(encoder: Encoder, part: Rows, gains: list[Tensor]) -> Tensor:
            with attached(encoder, self.residual, gains):
                return self.streams.run(part, encoder)

        parts = self._split(rows)
        self._gains = [[g.detach().clone().requires_grad_() for g in self.parameters] for _ in parts]
        with frozen(self.streams.encoder):
            self._found = self.cores.map(run, parts, self._gains)
        return torch.cat([found.detach() for found in self._found])

    def backward(self, gradient: Float[Tensor, "row d"]) -> None:
        self.cores.map(lambda encoder, found, part: found.backward(part), self._found, gradient.split([len(f) for f in self._found]))
        for parameter, *copies in zip(self.parameters, *self._gains, strict=True):
            found = sum((c.grad for c in copies if c.grad is not None), start=torch.zeros_like(parameter))
            parameter.grad = found if parameter.grad is None else parameter.grad + found

    def embed(self, rows: Rows) -> Float[Tensor, "row d"]:
        gains = [g.detach() for g in self.parameters]

        def run(encoder: Encoder, part: Rows) -> Tensor:
            with attached(encoder, self.residual, gains):
                return self.streams.embed(part, encoder=encoder)

        return torch.cat(self.cores.map(run, self._split(rows)))


class MatrixLearner:
    """A square matrix on fixed embeddings, from the identity."""

    def __init__(self, embeddings: Float[Tensor, "clip d"]) -> None:
        self.embeddings = embeddings
        self.matrix = torch.eye(embeddings.shape[1], device=embeddings.device, dtype=embeddings.dtype, requires_grad=True)
        self.parameters = [self.matrix]

    def forward(self, rows: Rows) -> Float[Tensor, "row d"]:
        self._found = self.embeddings[rows] @ self.matrix.T
        return self._found.detach()

    def backward(self, gradient: Float[Tensor, "row d"]) -> None:
        self._found.backward(gradient)

    def embed(self, rows: Rows) -> Float[Tensor, "row d"]:
        return self.embeddings[rows] @ self.matrix.detach().T


class WeightLearner:
    """Weights of an encoder's own modules (LoRA's, or all of them); ``encoder`` is a copy that may be changed."""

    def __init__(self, encoder: Encoder, parameters: list[nn.Parameter], streams: Streams) -> None:
        self.encoder, self.streams = encoder, streams
        self.parameters: list[Tensor] = list(parameters)
        for parameter in encoder.module.parameters():
            parameter.requires_grad_(False)
        for parameter in parameters:
            parameter.requires_grad_(True)

    def forward(self, rows: Rows) -> Float[Tensor, "row d"]:
        self._found = self.streams.run(rows, self.encoder)
        return self._found.detach()

    def backward(self, gradient: Float[Tensor, "row d"]) -> None:
        self._found.backward(gradient)

    def embed(self, rows: Rows) -> Float[Tensor, "row d"]:
        return self.streams.embed(rows, encoder=self.encoder)
