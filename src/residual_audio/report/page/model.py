"""What the run's own model says for the page: directions of classes and words, effects of gains on the clips shown, answers and maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ...adaptation.directions import directions
from ...adaptation.gain import ResiDual
from ...data import clean_label
from ...evaluation import centroid_directions
from ...extraction import Run
from ...meaning.describe import default_dictionary
from ...meaning.dictionary import load_dictionary
from ...meaning.shares import unit_embeddings
from ...meaning.texts import text_directions
from ...models import Encoder
from .answers import answers
from .clips import media_of
from .effects import knobs, page_effects
from .gather import class_titles, pool_rows, table
from .model_part import ModelPart, top_clips

COUNTED = 400  # clips that shares of variance are computed from
# What the sliders' axes are where they were learned, strongest first.
LEARNED_AXES = {
    "axes": "the sliders are its learned axes (eigenvectors), strongest change first.",
    "mixing": "the sliders are its singular directions, strongest first; what lies along one direction is written along another.",
}


@dataclass(frozen=True)
class Asked:
    """What can be asked for, classes first: ``texts`` with their kind, their ``directions``, and what is taken off every score."""

    texts: list[tuple[str, str]]
    directions: Float[Tensor, "text d"]
    offset: Float[Tensor, " text"] | None
    classifier: str

    @property
    def classes(self) -> Float[Tensor, "class d"]:
        return self.directions[: sum(kind == "class" for _, kind in self.texts)]


def gains_by_head(residual: ResiDual | None) -> dict[str, np.ndarray]:
    """Learned gains by head label."""
    sets = [s for s in residual.sets if s.place.kind == "heads"] if residual is not None else []
    return {label: directions(s, i).gain.cpu().numpy() for s in sets for i, label in enumerate(s.place.labels)}


def slider_notes(residual: ResiDual | None) -> list[str]:
    """What has to be known of an adapter to read its sliders."""
    if residual is None:
        return []
    other = sorted({s.place.kind for s in residual.sets if s.place.kind != "heads"})
    forms = sorted({s.form for s in residual.sets if s.place.kind == "heads"} & set(LEARNED_AXES))
    notes = [f"The adapter also changes {', '.join(other)}; the sliders show its heads."] if other else []
    return notes + [f"Form {form}: {LEARNED_AXES[form]}" for form in forms]


def prompts(run: Run, encoder: Encoder, classes: Sequence[str], dictionary: Sequence[str] | None, words: int, template: str) -> Asked:
    """Classes by their prompts, and words of a dictionary that are none of them."""
    names = class_titles(run, classes)
    directions = text_directions(run.info, names, template, lambda: encoder)
    book = load_dictionary(dictionary or default_dictionary(run)).words[:words] if words else ()
    known = {clean_label(name) for name in names}
    further = [word for word in book if clean_label(word) not in known]
    if further:
        directions = torch.cat([directions, text_directions(run.info, further, "plain", lambda: encoder)])
    texts = [(name, "class") for name in names] + [(word, "word") for word in further]
    return Asked(texts, directions, None, f"cosine with the prompts “{template}”")


def centroids(run: Run, classes: Sequence[str], embedding: Float[Tensor, "clip d"]) -> Asked:
    """Classes by the means of their clips, where a model has no text side."""
    centre = embedding.mean(0)
    number = {label: i for i, label in enumerate(classes)}
    targets = torch.tensor([number[label] for label in run.clips["label"].astype(str)])
    directions = centroid_directions(embedding - centre, targets, len(classes))
    texts = [(name, "class") for name in class_titles(run, classes)]
    return Asked(texts, directions, directions @ centre, "closeness to class centroids, which every clip helped to make")


def best_heads(run: Run) -> list[str]:
    """By Fisher ratio, where the run has been analysed."""
    heads = table(run.store.local, "heads") if run.store.local is not None else None
    return heads.sort_values("fisher", ascending=False)["label"].tolist() if heads is not None and "fisher" in heads else []


def model_part(
    run: Run,
    encoder: Encoder,
    residual: ResiDual | None,
    clips: int,
    dictionary: Sequence[str] | None,
    words: int,
    template: str,
    advance: Callable[[int], object] | None,
) -> ModelPart | None:
    """All of it as arrays; None where the run has neither head outputs nor moments."""
    if "head" not in run.keys and not run.store.exists("moments.safetensors"):
        return None
    labels = run.clips["label"].astype(str)
    classes = sorted(labels.unique())
    embedding = unit_embeddings(run)
    asked = prompts(run, encoder, classes, dictionary, words, template) if encoder.has_text else centroids(run, classes, embedding)
    scores = (embedding @ asked.directions.T).numpy() - (0 if asked.offset is None else asked.offset.numpy())
    rows = pool_rows(labels, clips)
    mapped: dict[int, list[int]] = {}
    share, components, counted = None, [], 0
    if "direct.units" in run.keys:
        moved = answers(run, asked.directions, pool_rows(labels, COUNTED))
        share, components, counted = moved.share.numpy(), moved.components, moved.clips
        # Images are pooled at their class token: there is no plane that their shares lie in.
        for number, some in enumerate(top_clips(scores, rows) if media_of(run) == "sound" else ()):
            for row in some:
                mapped.setdefault(row, []).append(number)
    turned = knobs(run, residual, best_heads(run))
    effects, maps = page_effects(
        encoder, run, rows, asked.classes, turned, residual, mapped, asked.directions, asked.offset, advance
    )  # fmt: skip
    return ModelPart(
        asked.classifier, effects.rows, effects.base.numpy(), effects.whole.numpy(), turned.heads, [a.numpy() for a in effects.axis],
        [g.numpy() for g in turned.gain], effects.dropped.numpy(), None if effects.adapted is None else effects.adapted.numpy(),
        asked.texts, np.asarray(scores, np.float32), share, components, maps, counted, slider_notes(residual),
    )  # fmt: skip
