"""From an encoder and a dataset to what methods work on: every clip decoded and run once, up to the first adapted block."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..data import Dataset, load_dataset
from ..data.prompts import DEFAULT_TEMPLATE, templates
from ..evaluation import EvaluationError
from ..evaluation.classifiers import prompt_directions
from ..evaluation.folds import with_folds
from ..models import Encoder
from ..models.dropping import check_droppable
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
    keep: str | None = None,
    workers: int | None = None,
    advance: Callable[[int], object] | None = None,
) -> Setting:
    """Decode and run every clip once; ``advance(n)`` is told of clips. ``keep``: clips without labels whose answers are kept."""
    check_text(encoder, methods, recipe, template)
    for method in methods:
        METHODS[method].suits(encoder)
        if getattr(recipe.options(method), "drop_tokens", 0):
            check_droppable(encoder)
    # Prompts first: a missing tokenizer should be told before an hour of audio is encoded.
    names = [dataset.names[label] for label in dataset.labels]
    directions = prompt_directions(encoder, names, templates(template or DEFAULT_TEMPLATE)).cpu() if encoder.has_text else None
    block = first_block(encoder, choose_places(encoder.units, selection(methods, recipe)))
    # Clips whose answers are kept come last, so that rows of the dataset are what they are without them.
    others = load_dataset(keep).clips if keep else ()
    sources = [c.source for c in (*dataset.clips, *others)]
    inputs = needs_inputs(methods, recipe)
    with progress(f"{encoder.name} on {dataset.name}", len(sources), advance) as advance:
        cached = cache_streams(encoder, sources, None if inputs else block, workers=workers, advance=advance)
    whole, streams = (cached, advanced(cached, block)) if inputs else (None, cached)
    if not len(streams) or streams.readable[0] >= len(dataset):
        first = next(iter(streams.errors.values()), "the dataset is empty")
        raise EvaluationError(f"{dataset.name}: none of {len(dataset)} clips could be read; the first error: {first}")
    errors = {dataset.clips[i].id: message for i, message in streams.errors.items() if i < len(dataset)}
    readable = dataset.without(errors)
    directions = None if directions is None else directions[dataset.rows_of(readable.labels)]
    if keep and len(streams) == len(readable):
        raise EvaluationError(f"--keep-clips {keep}: none of its clips could be read")
    unread = {others[i - len(dataset)].id: message for i, message in streams.errors.items() if i >= len(dataset)}
    kept = {"dataset": keep, "clips": len(others), "errors": unread} if keep else {}
    embeddings, beside = streams.embed(np.arange(len(streams))).cpu().split([len(readable), len(streams) - len(readable)])
    return Setting(encoder, with_folds(readable, folds, seed), streams, embeddings, directions, errors, whole, beside, kept)
