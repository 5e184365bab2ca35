"""Embed a dataset: what could be read, and why the rest could not."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from ..data import Dataset
from ..media import MediaError
from ..models import Encoder
from ..progress import progress
from .errors import EvaluationError


def embed_readable(
    encoder: Encoder, dataset: Dataset, batch_size: int, workers: int | None, advance: Callable[[int], object] | None
) -> tuple[Dataset, Float[Tensor, "clip d"], dict[str, str]]:
    """The readable clips as a dataset (without classes that have none), their embeddings in this order, and the errors of the others."""
    with progress(f"{encoder.name} on {dataset.name}", len(dataset), advance) as advance:
        outcomes = encoder.embed_outcomes([c.source for c in dataset.clips], batch_size, workers, advance)
    errors = {c.id: str(o) for c, o in zip(dataset.clips, outcomes, strict=True) if isinstance(o, MediaError)}
    vectors = [o for o in outcomes if isinstance(o, Tensor)]
    if not vectors:
        first = next(iter(errors.values()), "the dataset is empty")
        raise EvaluationError(f"{dataset.name}: none of {len(dataset)} clips could be read; the first error: {first}")
    return dataset.without(errors), torch.stack(vectors), errors
