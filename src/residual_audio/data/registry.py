"""The datasets that can be opened by name, and the kinds of the user's own data: one file of :mod:`.sets` each.

Four kinds, told apart by what opening them needs: a published dataset lies in a folder, a shipped one in the package, a generated one
needs no file, the user's own data is named by an address. Each has a ``name``, one line of ``help``, and ``shown``: how it is written
on the command line.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..registry import Registry
from .clip import DataError, Dataset
from .origin import Origin


def default_root(name: str) -> Path:
    """Where a dataset is looked for when no root is given: ``$RESIDUAL_AUDIO_DATA/NAME``, or in the user's cache."""
    return Path(os.environ.get("RESIDUAL_AUDIO_DATA") or "~/.cache/residual-audio/data").expanduser() / name


@dataclass(frozen=True)
class Published:
    """On disk: ``load(root, **options)`` reads it. Its origin says how it has to lie there and where to fetch it from."""

    name: str
    help: str
    load: Callable[..., Dataset]
    origin: Origin
    order: int = 50

    @property
    def shown(self) -> str:
        return self.name

    def open(self, root: str | Path | None, download: bool, options: dict[str, Any]) -> Dataset:
        root = default_root(self.origin.name) if root is None else root
        if download:
            self.origin.ensure(root)
        return self.load(root, **options)


@dataclass(frozen=True)
class Shipped:
    """In the package: ``load(**options)``. Others recorded it: the licence and whom to credit are told wherever it is listed."""

    name: str
    help: str
    load: Callable[..., Dataset]
    licence: str
    credit: str
    order: int = 10

    @property
    def shown(self) -> str:
        return self.name

    def open(self, root: str | Path | None, download: bool, options: dict[str, Any]) -> Dataset:
        if root is not None:
            raise DataError(f"{self.name} comes with the package and is read from there; leave out the root (--data-root)")
        return self.load(**options)


@dataclass(frozen=True)
class Generated:
    """Made on the fly: ``load(**options)``. There is nothing to fetch and no folder to look in."""

    name: str
    help: str
    load: Callable[..., Dataset]
    order: int = 70

    @property
    def shown(self) -> str:
        return self.name

    def open(self, root: str | Path | None, download: bool, options: dict[str, Any]) -> Dataset:
        if root is not None:
            raise DataError(f"{self.name} is made on the fly and lies in no folder; leave out the root (--data-root)")
        return self.load(**options)


@dataclass(frozen=True)
class Own:
    """The user's own data, ``NAME:ARGUMENT``: ``load(address, root, **options)``. ``takes``: whether a bare path means this kind."""

    name: str
    argument: str
    help: str
    load: Callable[..., Dataset]
    takes: Callable[[Path], bool] = lambda path: False
    order: int = 90

    @property
    def shown(self) -> str:
        return f"{self.name}:{self.argument}"


Source = Published | Shipped | Generated | Own
DATASETS: Registry[Source] = Registry("dataset", "residual_audio.data.sets", DataError)


def below(root: str | Path | None, path: str | Path) -> Path:
    """A path of the user's; a relative one starts from ``root``, or from where we are."""
    return Path(root or ".").expanduser() / Path(path).expanduser()
