"""From an encoder and a dataset to what methods work on: every clip decoded and run once, up to the first adapted block."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..data import Dataset
from ..data.prompts import DEFAULT_TEMPLATE, templates
from ..evaluation import EvaluationError
from ..evaluation.classifiers import prompt_directions
from ..evaluation.folds import with_folds
from ..models import Encoder
from ..options import option_specs
from ..progress import progress
from .methods import METHODS
from .options import Selected
from .recipe import Recipe
from .select import choose_places
from .streams import advanced, cache_streams, first_block
from .task import Setting


def needs_inputs(methods: Sequence[str], recipe: Recipe) -> bool:
    """Whether any of the methods runs the whole encoder, or ranks heads by their direct shares."""
    return any(METHODS[m].whole or getattr(recipe.options(m), "by", None) == "text" for m in methods)


def selection(methods: Sequence[str], recipe: Recipe) -> str:
    """The units that the methods adapt; the same for all that choose any."""
    chosen = [recipe.options(m) for m in methods]
    return next((o.units for o in chosen if isinstance(o, Selected)), str(option_specs(Selected)["units"].default))


def check_text(encoder: Encoder, methods: Sequence[str], recipe: Recipe, template: str | None) -> None:
    """Refuse prompts where there is no text side, before any sound is decoded."""
    if encoder.has_text:
        return
    if recipe.get("towards") in ("prompts", "both"):
        raise EvaluationError(f"{encoder.name} has no text side; use --towards centroids")
    if template is not None:
        raise EvaluationError(f"--template is for prompts, and {encoder.name} has no text side; leave it out")


def prepare(
    encoder: Encoder,
    dataset: Dataset,
    methods: Sequence[str],
    recipe: Recipe = Recipe(),
    *,
    folds: str = "official",
    template: str | None = None,
    seed: int = 0,
    workers: int | None = None,
    advance: Callable[[int], object] | None = None,
) -> Setting:
    """Decode and run every clip once; ``advance(n)`` is told of clips."""
    check_text(encoder, methods, recipe, template)
    for method in methods:
        METHODS[method].suits(encoder)
    # Prompts first: a missing tokenizer should be told before an hour of audio is encoded.
    names = [dataset.names[label] for label in dataset.labels]
    directions = prompt_directions(encoder, names, templates(template or DEFAULT_TEMPLATE)).cpu() if encoder.has_text else None
    block = first_block(encoder, choose_places(encoder.units, selection(methods, recipe)))
    sources, inputs = [c.source for c in dataset.clips], needs_inputs(methods, recipe)
    with progress(f"{encoder.name} on {dataset.name}", len(dataset), advance) as advance:
        cached = cache_streams(encoder, sources, None if inputs else block, workers=workers, advance=advance)
    whole, streams = (cached, advanced(cached, block)) if inputs else (None, cached)
    if not len(streams):
        first = next(iter(streams.errors.values()), "the dataset is empty")
        raise EvaluationError(f"{dataset.name}: none of {len(dataset)} clips could be read; the first error: {first}")
    errors = {dataset.clips[i].id: message for i, message in streams.errors.items()}
    readable = dataset.without(errors)
    directions = None if directions is None else directions[dataset.rows_of(readable.labels)]
    embeddings = streams.embed(np.arange(len(streams))).cpu()
    return Setting(encoder, with_folds(readable, folds, seed), streams, embeddings, directions, errors, whole)
