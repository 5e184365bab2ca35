"""What can be trained: something with parameters that gives clips their embeddings. One loop (train.py) trains them all.

A learner may say where its parameters are pulled to (``neutral``; else to where they start) and by which factor their learning rate differs
from the loop's (``scales``; else one).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..models import Encoder
from ..models.copies import Cores
from ..models.dropping import check_droppable, drawn_tokens, dropping
from ..models.precision import multiplying
from .attach import attached
from .forms import FORMS
from .gain import ResiDual
from .inlay import inlaid
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


class SharedLearner:
    """Runs ``streams`` to their embeddings, every core with its own part of a batch; gradients add up in the order of the parts.

    ``ready(encoder)`` is entered around every run of a part; here it does nothing, and the encoder runs as it is.
    ``precision``: of products. ``embed`` sees all tokens.
    """

    precision = "float32"
    dropped = 0.0

    def __init__(self, encoder: Encoder, parameters: Sequence[Tensor], streams: Streams) -> None:
        self.streams, self.parameters, self.cores = streams, list(parameters), Cores(encoder)

    def ready(self, encoder: Encoder) -> AbstractContextManager[Any]:
        return nullcontext()

    def judged(self, encoder: Encoder) -> AbstractContextManager[Any]:
        """The same around what is judged, which must not depend on how it was learned."""
        return self.ready(encoder)

    def drop(self, share: float, seed: int) -> None:
        """Leave a share of the tokens out of every forward from now on."""
        if share:
            check_droppable(self.streams.encoder)
        self.dropped, self._drawn = share, np.random.default_rng([seed, 2])

    def _split(self, rows: Rows) -> list[Rows]:
        return np.array_split(rows, max(1, min(self.cores.count, len(rows))))

    def forward(self, rows: Rows) -> Float[Tensor, "row d"]:
        def run(encoder: Encoder, part: Rows, tokens: Int[np.ndarray, "clip kept"] | None) -> Tensor:
            with self.ready(encoder), multiplying(self.precision, encoder.device), dropping(encoder, self.streams.block or 0, tokens):
                return self.streams.run(part, encoder).to(encoder.dtype)

        parts = self._split(rows)
        kept = [drawn_tokens(self.streams.encoder, len(part), self.dropped, self._drawn) if self.dropped else None for part in parts]
        self._embedded = self.cores.map(run, parts, kept)
        return torch.cat([part.detach() for part in self._embedded])

    def backward(self, gradient: Float[Tensor, "row d"]) -> None:
        def grads(encoder: Encoder, embedded: Tensor, part: Tensor) -> tuple[Tensor | None, ...]:
            return torch.autograd.grad(embedded, self.parameters, part, allow_unused=True)

        by_core = self.cores.map(grads, self._embedded, gradient.split([len(f) for f in self._embedded]))
        for parameter, *parts in zip(self.parameters, *by_core, strict=True):
            total = sum((p for p in parts if p is not None), start=torch.zeros_like(parameter))
            parameter.grad = total if parameter.grad is None else parameter.grad + total

    def embed(self, rows: Rows) -> Float[Tensor, "row d"]:
        def run(encoder: Encoder, part: Rows) -> Tensor:
            with self.judged(encoder), multiplying(self.precision, encoder.device):
                return self.streams.embed(part, encoder=encoder).to(encoder.dtype)

        return torch.cat(self.cores.map(run, self._split(rows)))


class GainLearner(SharedLearner):
    """The numbers of a form on cached streams, everything else frozen."""

    def __init__(self, residual: ResiDual, streams: Streams) -> None:
        encoder = streams.encoder
        self.residual = residual.to(encoder.device, encoder.dtype)
        super().__init__(encoder, [s.values.clone().requires_grad_() for s in self.residual.sets], streams)
        forms = [FORMS[s.form] for s in self.residual.sets]
        self.neutral, self.scales = [f.neutral for f in forms], [f.scale for f in forms]

    def ready(self, encoder: Encoder) -> AbstractContextManager[Any]:
        # In bf16, a small change of a weight would be lost in its short mantissa.
        run = inlaid if self.precision == "float32" and encoder.precision == "float32" else attached
        return run(encoder, self.residual, self.parameters)

    def judged(self, encoder: Encoder) -> AbstractContextManager[Any]:
        return attached(encoder, self.residual, self.parameters)

    def forward(self, rows: Rows) -> Float[Tensor, "row d"]:
        with frozen(self.streams.encoder):
            return super().forward(rows)


class MatrixLearner:
    """A square matrix on fixed embeddings, from the identity."""

    def __init__(self, embeddings: Float[Tensor, "clip d"]) -> None:
        self.embeddings = embeddings
        self.matrix = torch.eye(embeddings.shape[1], device=embeddings.device, dtype=embeddings.dtype, requires_grad=True)
        self.parameters = [self.matrix]

    def forward(self, rows: Rows) -> Float[Tensor, "row d"]:
        self._embedded = self.embeddings[rows] @ self.matrix.T
        return self._embedded.detach()

    def backward(self, gradient: Float[Tensor, "row d"]) -> None:
        self._embedded.backward(gradient)

    def embed(self, rows: Rows) -> Float[Tensor, "row d"]:
        return self.embeddings[rows] @ self.matrix.detach().T


class WeightLearner(SharedLearner):
    """Weights of an encoder's own modules (LoRA's, or all of them); ``encoder`` is a copy that may be changed."""

    def __init__(self, encoder: Encoder, parameters: list[nn.Parameter], streams: Streams) -> None:
        for parameter in encoder.module.parameters():
            parameter.requires_grad_(False)
        for parameter in parameters:
            parameter.requires_grad_(True)
        self.encoder = encoder
        super().__init__(encoder, parameters, streams)
