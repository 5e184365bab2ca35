"""What is imported only when it is asked for: parts of packages, so that ``--help`` waits for nothing heavy, and libraries of extras."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class MissingExtra(ImportError):
    """A library that an extra of this package brings is not installed; the message names the extra."""


def need(extra: str, *modules: str) -> None:
    """Raise :class:`MissingExtra` where a module of an extra is not installed: before any work, not after it."""
    if absent := [name for name in modules if find_spec(name) is None]:
        raise MissingExtra(f'{", ".join(absent)}: not installed; pip install "residual-audio[{extra}]"')


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for a package: ``homes`` names the module in which each public name lives."""

    def get(name: str) -> object:
        if name in homes:
            return getattr(import_module(homes[name], package), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted(homes)


def callable_room(package: str, name: str) -> None:
    """A room and its function of the same name, as users call it: both are reached by that one name, ``ra.report``."""

    class Room(ModuleType):
        def __call__(self, *args: Any, **named: Any) -> Any:
            return getattr(self, name)(*args, **named)

        @property
        def __signature__(self) -> Any:
            from inspect import signature

            return signature(getattr(self, name))

    sys.modules[package].__class__ = Room
