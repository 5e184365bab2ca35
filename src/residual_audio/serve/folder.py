"""The one folder that a server writes to, and the only names that it takes from a client."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..writing import own_folder
from .problems import Problem, ServeError

SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,46}[a-z0-9])?")
DRAFTS, LOCK, ASIDE = ".drafts", ".lock", ".aside"


def slug(text: str) -> str:
    """A name of ours for something of the user's: the last part of a path, in small letters, digits and dashes."""
    last = text.rstrip("/").rpartition("/")[2]
    made = re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-")[:48].strip("-")
    return made or "model"


def name_of(text: str) -> str:
    """A client's name for an adapter or a dataset, or a problem: it becomes part of a path, so only small letters, digits and dashes."""
    if not SLUG.fullmatch(text):
        raise Problem(422, "a name has 1 to 48 small letters, digits and dashes, and no dash at either end")
    return text


class Folder:
    """``FOLDER/ENTRY/adapters/NAME`` and ``FOLDER/ENTRY/datasets/NAME``; what is being made lies in ``FOLDER/.drafts``.

    One server at a time: a second one is refused. No part of a path inside may be a link.
    """

    def __init__(self, home: Path) -> None:
        self.home = home.absolute()

    @contextmanager
    def held(self) -> Iterator[Folder]:
        """Ours as long as we run. What a killed server left half-made is cleared away."""
        self.home.mkdir(parents=True, exist_ok=True)
        file = os.open(self.home / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)  # the drafts are the other one's
            raise ServeError(f"another server writes to {self.home}; stop it, or choose another --folder") from None
        try:
            self.mend()
            self.clear()
            yield self
        finally:
            self.clear()
            os.close(file)

    def mend(self) -> None:
        """What stood aside when a server was killed takes its place again, unless the new one has it."""
        for aside in self.home.glob(f"*/*/*{ASIDE}"):
            target = aside.with_name(aside.name.removeprefix(".").removesuffix(ASIDE))
            if aside.is_symlink() or target.exists():
                shutil.rmtree(aside, ignore_errors=True)
            else:
                aside.replace(target)

    def clear(self) -> None:
        drafts = self.home / DRAFTS
        if drafts.is_symlink():
            drafts.unlink()
        shutil.rmtree(drafts, ignore_errors=True)

    def of(self, entry: str, kind: str, name: str | None = None) -> Path:
        """Where the adapters or datasets of an entry lie, or one of them; it need not be there."""
        path = self.home / name_of(entry) / kind
        return own_folder(path if name is None else path / name_of(name), below=self.home)

    def names(self, entry: str, kind: str) -> list[str]:
        """What is there, oldest first; anything that the server did not make is passed over."""
        place = self.of(entry, kind)
        if not place.is_dir():
            return []
        found = [p for p in place.iterdir() if SLUG.fullmatch(p.name) and p.is_dir() and not p.is_symlink()]
        return [p.name for p in sorted(found, key=lambda p: (p.stat().st_mtime_ns, p.name))]

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """A new empty folder on the same disk; gone on leaving, with whatever is still in it."""
        drafts = own_folder(self.home / DRAFTS)
        drafts.mkdir(parents=True, exist_ok=True)
        place = drafts / secrets.token_hex(8)
        place.mkdir()
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def put(self, made: Path, target: Path) -> None:
        """A finished folder takes its place; one that was there before is gone. A kill in between leaves the old one, to be mended."""
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f".{target.name}{ASIDE}")
        if target.exists():
            target.replace(aside)
        try:
            made.replace(target)
        except BaseException:
            if aside.exists():
                aside.replace(target)
            raise
        shutil.rmtree(aside, ignore_errors=True)

    def remove(self, target: Path) -> None:
        """Gone at once for everybody who looks, then for good."""
        with self.draft() as away:
            target.replace(away / "old")
