"""Class directions: from prompts, or from the clips themselves."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from ..data.prompts import fill
from ..models import Encoder


def prompt_directions(encoder: Encoder, names: Sequence[str], template_set: Sequence[str]) -> Float[Tensor, "class d"]:
    """One unit vector a class: the mean direction of its prompts, one prompt a template."""
    prompts = fill(template_set, names)
    embedded = encoder.embed_text([p for row in prompts for p in row])
    return F.normalize(embedded.unflatten(0, (len(names), len(template_set))).mean(1), dim=-1)


def centroid_directions(embeddings: Float[Tensor, "clip d"], targets: Int[Tensor, " clip"], classes: int) -> Float[Tensor, "class d"]:
    """One unit vector a class: the mean direction of its clips (zero for a class without clips)."""
    members = F.one_hot(targets, classes).to(embeddings.dtype)
    return F.normalize(members.T @ F.normalize(embeddings, dim=-1), dim=-1)
