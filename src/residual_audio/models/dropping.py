"""Run an encoder on a part of its tokens: cheaper steps of learning, and other tokens at every step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from .encoder import Encoder, EncoderError
from .isotropic import IsotropicEncoder


def check_droppable(encoder: Encoder) -> None:
    """Windows need every token of theirs, and merging needs all four of a patch."""
    if not isinstance(encoder, IsotropicEncoder):
        raise EncoderError(f"--drop-tokens: {encoder.name} attends in windows, which need all of their tokens; leave it out")


def drawn_tokens(encoder: Encoder, clips: int, share: float, generator: np.random.Generator) -> Int[np.ndarray, "clip kept"]:
    """For every clip the tokens that stay, in order: those that the embedding is read from, and of the others all but ``share``."""
    total = math.prod(encoder.stages[0].grid)
    always = np.array(encoder.readout.tokens or (), dtype=np.int64)
    others = np.setdiff1d(np.arange(total), always)
    kept = max(1, round(len(others) * (1 - share)))
    chosen = others[generator.random((clips, len(others))).argsort(1)[:, :kept]]
    return np.sort(np.concatenate([np.broadcast_to(always, (clips, len(always))), chosen], 1), 1)


@contextmanager
def dropping(encoder: Encoder, block: int, kept: Int[np.ndarray, "clip kept"] | None) -> Iterator[None]:
    """Inside, only the tokens ``kept`` enter block number ``block``; None: all of them."""
    if kept is None:
        yield
        return
    places = torch.from_numpy(kept).to(encoder.device)

    def gather(_: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        stream: Tensor = args[0]
        return (stream.gather(1, places[..., None].expand(-1, -1, stream.shape[-1])), *args[1:]), options

    hook = encoder.module.get_submodule(encoder.sites[block].module).register_forward_pre_hook(gather, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()
