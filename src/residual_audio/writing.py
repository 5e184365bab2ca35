"""Files and folders that are there whole or not at all, with the permissions that the user's umask gives."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def _draft(target: Path) -> Path:
    """A hidden name beside the target that nothing else has."""
    return target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")


class LinkError(ValueError):
    """A folder or file that is a link where one of our own is expected; the message says what to do."""


def own_folder(folder: Path, below: Path | None = None) -> Path:
    """The folder (or file), refused where it is a link: what is received from others must not lead our writing elsewhere.

    ``below``: every folder between is looked at too. That one itself is the user's own choice, and may be a link.
    """
    between = [] if below is None else [p for p in folder.parents if below in p.parents]
    for path in (*between, folder):
        if path.is_symlink():
            raise LinkError(
                f"{path} is a link; results are written to files and folders of their own only. Remove it, or choose another --out"
            )
    return folder


@contextmanager
def drafted(target: Path) -> Iterator[Path]:
    """A new empty file to write to; on leaving it takes the target's place, and if writing failed nothing is left of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = _draft(target)
    try:  # from the first moment on: a signal may come between any two lines
        draft.open("x").close()
        mode = draft.stat().st_mode
        yield draft
        draft.chmod(mode)  # some libraries (safetensors) put a private file in its place
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def drafted_folder(target: Path) -> Iterator[Path]:
    """A new empty folder to fill; on leaving it becomes the target, which must be empty or not there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = _draft(target)
    try:
        draft.mkdir()
        mode = draft.stat().st_mode
        yield draft
        for path in draft.rglob("*"):
            path.chmod(mode if path.is_dir() else mode & 0o666)
        if target.exists():
            target.rmdir()
        draft.replace(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
