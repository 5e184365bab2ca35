"""What sounds and images have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .spelling import printable


class MediaError(ValueError):
    """A sound or an image that cannot be used; the message names it and says why."""


@contextmanager
def reading(source: Any) -> Iterator[None]:
    """Whatever goes wrong with one source is that source's :class:`MediaError`: one odd file must never end a run."""
    try:
        yield
    except MediaError:
        raise
    except Exception as error:
        raise MediaError(f"{name_of(source)}: cannot be read ({type(error).__name__}: {printable(str(error))})") from error


def name_of(source: Any) -> str:
    """A source as errors call it: the path of a file, else what it is."""
    return printable(str(source)) if isinstance(source, str | Path) else type(source).__name__


def regular_file(path: Path, kind: type[MediaError] = MediaError) -> None:
    """Refuse what is no file with something in it, before a decoder sees it: a pipe would be waited for, a device never ends."""
    name = printable(str(path))
    try:
        if path.is_dir():
            raise kind(f"{name}: is a directory; pass the files in it, or load it as a dataset with `folder:{name}`")
        if not path.is_file():
            raise kind(f"{name}: no such file" if not path.exists() else f"{name}: is not a regular file")
        with path.open("rb") as file:
            if not file.read(1):
                raise kind(f"{name}: is empty (0 bytes)")
    except PermissionError as error:
        raise kind(f"{name}: no permission to read it") from error
    except OSError as error:
        raise kind(f"{name}: cannot be opened ({error.strerror})") from error
