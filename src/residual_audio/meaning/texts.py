"""Texts as directions of the joint space, kept by model revision, so that a model is opened once per dictionary."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..data.prompts import templates
from ..evaluation import prompt_directions
from ..models import Encoder
from ..writing import drafted
from .dictionary import MeaningError


def cache_folder() -> Path:
    """``$RESIDUAL_AUDIO_CACHE/texts``, or in the user's cache."""
    return Path(os.environ.get("RESIDUAL_AUDIO_CACHE") or "~/.cache/residual-audio").expanduser() / "texts"


def no_words(encoder: Encoder) -> MeaningError:
    return MeaningError(f"{encoder.name} has no text side, so there are no words for its units; use a CLAP model, or `analyze` for numbers")


def text_directions(
    info: dict[str, Any], texts: Sequence[str], template: str = "plain", opened: Callable[[], Encoder] | None = None
) -> Float[Tensor, "text d"]:
    """Unit-length embeddings of ``texts``, from the cache, or by the run's encoder (``opened``, such as ``run.open_encoder``).

    The key is the model's revision, the template and the texts: other weights never meet an old file.
    """
    filled = templates(template)
    key = hashlib.sha256(json.dumps([info["model"]["revision"], filled, list(texts)]).encode()).hexdigest()[:24]
    path = cache_folder() / f"{key}.safetensors"
    if path.exists():
        return load_file(path)["directions"]
    if opened is None:
        raise MeaningError("these texts are not in the cache, and no encoder was given to embed them; pass opened=run.open_encoder")
    encoder = opened()
    if not encoder.has_text:
        raise no_words(encoder)
    directions = prompt_directions(encoder, texts, filled).cpu().to(torch.float32).clone()
    with drafted(path) as draft:
        save_file({"directions": directions}, draft)
    return directions
