"""Download, verify, unpack. A download that was cut resumes; nothing unverified gets its final name."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from ..progress import opened_step
from .clip import DataError
from .unpack import MOST_BYTES, unpack

BLOCK, MB = 1 << 20, 10**6
TIMEOUT_SECONDS = 60
RANGE_NOT_SATISFIABLE = 416
PATIENCE_SECONDS, SLOWEST = 600, 1024


@dataclass(frozen=True)
class Remote:
    """A file on the net. ``checksum`` is ``md5:…`` or ``sha256:…``; archives are unpacked into ``into`` below the root.

    ``most``: more bytes than it can have.
    """

    url: str
    checksum: str
    filename: str
    into: str = "."
    most: int = MOST_BYTES

    @property
    def is_archive(self) -> bool:
        return self.filename.endswith((".zip", ".tar.gz"))


class Patience:
    """How long one waits, over all tries: a server that sends a byte now and then, or cuts after every byte, is given up."""

    def __init__(self) -> None:
        self.began, self.received = time.monotonic(), 0

    def check(self, url: str, received: int) -> None:
        self.received += received
        waited = time.monotonic() - self.began
        if waited > PATIENCE_SECONDS and self.received / waited < SLOWEST:
            raise DataError(f"{url}: sends less than {SLOWEST} bytes in a second; given up")


def receive(remote: Remote, part: Path, show: Callable[[int, int | None], None], patience: Patience) -> bool:
    """Append to ``part`` what it still lacks (or begin anew where the server cannot resume); True when that was all."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "residual-audio"} | ({"Range": f"bytes={have}-"} if have else {})
    with urlopen(Request(remote.url, headers=headers), timeout=TIMEOUT_SECONDS) as response:
        resumed = response.status == 206
        length = response.headers.get("Content-Length")
        total = (have if resumed else 0) + int(length) if length else None
        with part.open("ab" if resumed else "wb") as file:
            while block := response.read1(BLOCK):
                if file.tell() + len(block) > remote.most:
                    part.unlink()
                    raise DataError(f"{remote.url}: sends more than {remote.most:,} bytes, which is not what it should be; given up")
                file.write(block)
                patience.check(remote.url, len(block))
                show(file.tell(), total)
    return total is None or part.stat().st_size >= total


def verify(path: Path, remote: Remote) -> None:
    """Compare with the stated checksum; a file that differs is removed, so that the next try begins anew."""
    algorithm, _, expected = remote.checksum.partition(":")
    with path.open("rb") as file:
        actual = hashlib.file_digest(file, algorithm).hexdigest()
    if actual != expected:
        path.unlink()
        raise DataError(
            f"{remote.url}: the download has the {algorithm} {actual}, expected {expected}; it was removed. Try again; if the difference "
            "stays, the file has changed at its source: get it by hand, look at it, and unpack it where the layout says"
        )


def download(remote: Remote, folder: Path) -> Path:
    """``folder/filename``, verified. Tries again for as long as each try brings the file further."""
    target, part = folder / remote.filename, folder / f"{remote.filename}.part"
    if target.exists():
        try:
            verify(target, remote)  # it may lie there since yesterday, or be somebody else's
            return target
        except DataError:
            part.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    with opened_step(f"{remote.filename}, MB", None) as step:

        def show(done: int, total: int | None) -> None:
            step.total = None if total is None else total // MB
            step(done // MB - step.done)

        complete, patience = False, Patience()
        while not complete:
            before = part.stat().st_size if part.exists() else 0
            reason: object = "the connection was cut"
            try:
                complete = receive(remote, part, show, patience)
            except HTTPError as error:
                if error.code != RANGE_NOT_SATISFIABLE:
                    raise DataError(f"cannot download {remote.url}: {error}") from error
                complete = True  # nothing is left to send; the checksum decides
            except (OSError, HTTPException) as error:
                reason = error
            after = part.stat().st_size if part.exists() else 0
            if not complete and after <= before:
                kept = f" What has come so far is kept in {part}; the same command continues it." if after else ""
                raise DataError(f"cannot download {remote.url}: {reason}.{kept}")
    verify(part, remote)
    os.replace(part, target)
    return target


def place(path: Path, remote: Remote, root: Path) -> None:
    """Unpack (or move) into ``root / into``; what appears there is whole, because it is unpacked elsewhere and renamed."""
    destination = root / remote.into
    destination.mkdir(parents=True, exist_ok=True)
    if not remote.is_archive:
        os.replace(path, destination / remote.filename)
        return
    unpacked, partial = path.with_name(f"{path.name}.unpacked"), path.with_name(f"{path.name}.unpacking")
    if not unpacked.exists():
        shutil.rmtree(partial, ignore_errors=True)
        unpack(path, partial)
        os.replace(partial, unpacked)
    for entry in sorted(unpacked.iterdir()):
        if (destination / entry.name).is_dir():
            raise DataError(f"{destination / entry.name} exists already, but the dataset in it is not complete; move it away and try again")
        os.replace(entry, destination / entry.name)


def fetch(remotes: Sequence[Remote], root: Path) -> None:
    """Download all, then put all in place: a run that is cut at any point is continued by the same command."""
    folder = root / ".download"
    paths = [download(remote, folder) for remote in remotes]
    for path, remote in zip(paths, remotes, strict=True):
        place(path, remote, root)
    shutil.rmtree(folder)
