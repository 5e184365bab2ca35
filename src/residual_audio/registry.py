"""Things that exist several times (encoders, datasets, methods, measures, classifiers, figures): one file each, found by themselves.

A file registers what it holds when it is imported, and a registry imports every file of its package at the first look. Adding one is
adding a file: tables, help, figures, the page and the tests read the registry.
"""

from __future__ import annotations

import ast
import pkgutil
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Generic, Protocol, TypeVar, runtime_checkable


@runtime_checkable
class Named(Protocol):
    """What can be registered: it knows its name, and may have an ``order`` (smaller first; 50 where it has none)."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


class Registry(Mapping[str, T], Generic[T]):
    """By name, sorted by ``order`` and then by name.

    ``what`` is the word for one of them in errors; ``package`` the package whose files hold them; ``error`` what an unknown name raises.
    """

    def __init__(self, what: str, package: str, error: type[Exception]) -> None:
        self.what, self.package, self.error = what, package, error
        self._things: dict[str, T] = {}
        self._complete = False

    def add(self, thing: T) -> T:
        """Register; a second one of the same name is a mistake."""
        if thing.name in self._things:
            raise ValueError(f"the {self.what} {thing.name!r} is registered twice")
        self._things[thing.name] = thing
        return thing

    def _all(self) -> dict[str, T]:
        if not self._complete:
            home = import_module(self.package)
            for module in sorted(pkgutil.iter_modules(home.__path__), key=lambda m: m.name):
                import_module(f"{self.package}.{module.name}")
            self._complete = True
            self._things = dict(sorted(self._things.items(), key=lambda item: (getattr(item[1], "order", 50), item[0])))
        return self._things

    def __getitem__(self, name: str) -> T:
        things = self._all()
        if name not in things:
            near = get_close_matches(name, things, n=2, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}? " if near else ""
            raise self.error(f"unknown {self.what} {name!r}; {hint}known are {', '.join(things)}")
        return things[name]

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


def words_in_files(package: str) -> set[str]:
    """The words with which the files of a package (``"models/encoders"``) register things, read without importing them.

    Every name that is registered is among them, and other words may be: what is not here is no name, and that is known before torch
    is loaded. Names are therefore written down in the file, as text or as a constant of it (``tests/test_extension.py``).
    """
    words: set[str] = set()
    for path in sorted((Path(__file__).parent / package).glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants: dict[str, list[str]] = {}
        for node in tree.body:
            if isinstance(node, ast.Assign):
                constants |= {name: _texts(node.value) for target in node.targets for name in _names(target)}
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "add":
                words |= {*_texts(call), *(text for name in _names(call) for text in constants.get(name, ()))}
    return words


def _texts(tree: ast.AST) -> list[str]:
    return [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def _names(tree: ast.AST) -> list[str]:
    return [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
