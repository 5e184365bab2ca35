"""Class directions: from prompts, or from the clips themselves."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from ..data import Dataset
from ..data.prompts import DEFAULT_TEMPLATE, fill, templates
from ..models import Encoder


def prompt_directions(encoder: Encoder, names: Sequence[str], template_set: Sequence[str]) -> Float[Tensor, "class d"]:
    """One unit vector per class: the mean direction of its prompts, one prompt per template."""
    prompts = fill(template_set, names)
    embedded = encoder.embed_text([p for row in prompts for p in row])
    return F.normalize(embedded.unflatten(0, (len(names), len(template_set))).mean(1), dim=-1)


def class_directions(encoder: Encoder, dataset: Dataset, template: str | None = None) -> Float[Tensor, "class d"]:
    """The prompt directions of a dataset's classes, in the order of its labels; ``template``: a set of prompts, or a text with ``{}``."""
    return prompt_directions(encoder, [dataset.names[label] for label in dataset.labels], templates(template or DEFAULT_TEMPLATE))


def centroid_directions(embeddings: Float[Tensor, "clip d"], targets: Int[Tensor, " clip"], classes: int) -> Float[Tensor, "class d"]:
    """One unit vector per class: the mean direction of its clips (zero for a class without clips)."""
    members = F.one_hot(targets, classes).to(embeddings.dtype)
    return F.normalize(members.T @ F.normalize(embeddings, dim=-1), dim=-1)
