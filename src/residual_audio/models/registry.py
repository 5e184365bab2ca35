"""The encoders that exist: each file of ``encoders/`` registers its kind, with how it recognises a checkpoint and what it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from ..registry import Registry
from .encoder import Encoder, EncoderError, Media
from .loading import Loading

HUB = "the hub or its cache"
# (source as given, device, options) → encoder
Opener = Callable[[str, str | torch.device, Loading], Encoder]


@dataclass(frozen=True)
class KnownModel:
    """A line of ``residual-audio models``: a name that can be opened, what it is, and what it needs."""

    name: str
    what: str
    needs: str = HUB


@dataclass(frozen=True)
class EncoderKind:
    """One layout of checkpoints.

    It is recognised by ``own_names`` (such as ``tiny``), by the ending of a file (``suffixes``), or by the ``model_types`` of a
    config.json. ``window``: the length of its window can be chosen (option ``seconds``); ``media``: what it takes (options ``crop`` and
    ``pad`` are about sounds); ``own_precision``: its files say how precisely they multiply.
    ``home``: where its own names lie in the package; None where the hub has them.
    """

    name: str
    open: Opener
    model_types: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    own_names: tuple[str, ...] = ()
    home: Path | None = None
    media: Media = "sounds"
    window: bool = False
    own_precision: bool = False
    known: tuple[KnownModel, ...] = ()
    order: int = 50


ENCODERS: Registry[EncoderKind] = Registry("encoder", f"{__package__}.encoders", EncoderError)


def pretrained(make: Callable[..., Encoder]) -> Opener:
    """For encoders that transformers reads: ``make(directory or hub repository, name, device)``."""

    def open_it(source: str, device: str | torch.device, options: Loading) -> Encoder:
        return make(directory(source), source, device)

    return open_it


def directory(source: str) -> str:
    """A directory's path, or the hub repository as it is."""
    path = Path(source).expanduser()
    return str(path) if path.is_dir() else source


def known_models() -> tuple[KnownModel, ...]:
    """Every line of ``residual-audio models``."""
    lines = tuple(model for kind in ENCODERS.values() for model in kind.known)
    return (
        *lines,
        KnownModel("PATH", "a directory of any of these layouts, Microsoft's .pth, one of LAION's .pt, or an export", "the files"),
    )
