"""Unpack an archive that nobody has looked at: plain files and folders below one root, a bounded amount of them, and nothing else.

What Python's own unpacking refuses depends on its version; a crafted tar could write outside through links on some. Here links, devices
and paths that lead out are refused whatever the version, because only folders and plain files are ever made.
"""

from __future__ import annotations

import stat
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from .clip import DataError

MOST_BYTES, MOST_FILES = 32 << 30, 500_000
BLOCK = 1 << 20


def unpack(archive: Path, folder: Path, most_bytes: int = MOST_BYTES, most_files: int = MOST_FILES) -> None:
    """Into ``folder``, which is made; an archive that is damaged or does anything odd is a :class:`DataError`."""
    folder.mkdir(parents=True)
    left = most_bytes
    try:
        for number, (name, content) in enumerate(members(archive)):
            if number >= most_files:
                raise DataError(f"{archive.name}: holds more than {most_files:,} files; it is not unpacked")
            target = folder / safe(name, archive)
            if content is None:
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                while block := content.read(min(BLOCK, left + 1)):
                    left -= len(block)
                    if left < 0:
                        raise DataError(f"{archive.name}: holds more than {most_bytes:,} bytes; it is not unpacked")
                    file.write(block)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise DataError(f"{archive.name}: cannot be unpacked ({error})") from error


def members(archive: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    """Names with their content, None for a folder; anything that is neither is refused."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as file:
            for info in file.infolist():
                kind = stat.S_IFMT(info.external_attr >> 16)
                if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise DataError(f"{archive.name}: {info.filename!r} is a link or a device; the archive is not unpacked")
                yield info.filename, None if info.is_dir() else file.open(info)
        return
    with tarfile.open(archive) as file:
        for member in file:
            if not (member.isfile() or member.isdir()):
                raise DataError(f"{archive.name}: {member.name!r} is a link or a device; the archive is not unpacked")
            yield member.name, file.extractfile(member) if member.isfile() else None


def safe(name: str, archive: Path) -> PurePosixPath:
    """The name, if it stays below the root."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or ":" in (path.parts or ("",))[0]:
        raise DataError(f"{archive.name}: {name!r} leads out of its folder; the archive is not unpacked")
    return path
