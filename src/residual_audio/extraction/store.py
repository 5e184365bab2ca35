"""How a run is kept: numbered shards of safetensors, each written under a temporary name and renamed.

A shard is complete or absent, never half. It holds the arrays of its readable clips, the moments of those clips,
and in its header the fate of every clip it was given. The folder may be local or any fsspec address.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from ..data import DataWarning
from ..results import without_nan
from ..writing import drafted, own_folder


class StoreError(RuntimeError):
    """A run that cannot be written or opened; the message says what to do."""


@dataclass(frozen=True)
class Store:
    """A run's folder; ``address`` is a path or an fsspec URL such as ``s3://bucket/run``."""

    address: str

    @property
    def local(self) -> Path | None:
        """The folder as a path, where it is one."""
        if "://" not in self.address:
            return Path(self.address)
        return Path(self.address.removeprefix("file://")) if self.address.startswith("file://") else None

    @property
    def _files(self) -> tuple[fsspec.AbstractFileSystem, str]:
        files, root = fsspec.core.url_to_fs(self.address)
        return files, str(root)

    def exists(self, name: str) -> bool:
        files, root = self._files
        return bool(files.exists(f"{root}/{name}"))

    def names(self, folder: str) -> list[str]:
        """Complete files of a folder, sorted; temporary ones are not listed."""
        files, root = self._files
        if not files.exists(f"{root}/{folder}"):
            return []
        names = (path.rsplit("/", 1)[-1] for path in files.ls(f"{root}/{folder}", detail=False, refresh=True))
        return sorted(name for name in names if not name.startswith("."))

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """A temporary path to write to; on leaving it becomes ``name``, and if writing failed nothing is left of it.

        Links inside the run are not followed: a run may come from a stranger, and must not write elsewhere.
        """
        if self.local is not None:
            for parent in Path(name).parents[:-1]:
                own_folder(self.local / parent)
            with drafted(self.local / name) as draft:
                yield draft
            return
        with tempfile.TemporaryDirectory(prefix="residual-audio-") as folder:
            draft = Path(folder) / Path(name).name
            draft.touch()
            yield draft
            files, root = self._files
            files.makedirs(f"{root}/{Path(name).parent}", exist_ok=True)
            files.put_file(str(draft), f"{root}/{name}")

    def reading(self, name: str) -> Path:
        """A local path of a file, fetched once if the folder is remote."""
        if self.local:
            return self.local / name
        files, root = self._files
        # The key changes when the file does, so that a run made anew is not read from an old copy.
        key = hashlib.sha256(f"{self.address}/{name}/{files.ukey(f'{root}/{name}')}".encode()).hexdigest()
        cached = private_folder() / f"{key}{Path(name).suffix}"
        if not cached.exists():
            with drafted(cached) as draft:
                files.get_file(f"{root}/{name}", str(draft))
        return cached

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        with self.writing(name) as path:
            path.write_text(json.dumps(without_nan(content), indent=2, default=str, allow_nan=False) + "\n")

    def read_text(self, name: str) -> str:
        files, root = self._files
        return bytes(files.cat_file(f"{root}/{name}")).decode()

    def write_text(self, name: str, text: str) -> None:
        with self.writing(name) as path:
            path.write_text(text)

    def read_json(self, name: str) -> dict[str, Any]:
        files, root = self._files
        content: dict[str, Any] = json.loads(files.cat_file(f"{root}/{name}"))
        return content

    def write_tensors(self, name: str, tensors: dict[str, Tensor], header: dict[str, str] | None = None) -> None:
        with self.writing(name) as path:
            save_file({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, path, metadata=header or {})

    def read_tensors(self, name: str) -> dict[str, Tensor]:
        return read_tensors(self.reading(name))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process at a time may write a local run; the lock goes with the process, however it ends.

        The folder itself is locked: a file could be removed, and a second one locked. Remote stores have no lock, and say so.
        """
        if self.local is None:
            told = f"{self.address} cannot be locked: see to it that nothing else writes it at the same time"
            warnings.warn(told, StoreWarning, stacklevel=3)
            yield
            return
        import fcntl

        self.local.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.local, os.O_RDONLY | os.O_DIRECTORY)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise StoreError(f"{self.address} is being written by {self._owner()}; wait for it, or choose another --out") from error
            with open(self._lock_file(os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w") as file:
                file.write(f"process {os.getpid()}")
            yield
        finally:
            os.close(handle)

    def _lock_file(self, flags: int) -> int:
        """``.lock`` says who writes; it is never a link to something else."""
        assert self.local is not None
        try:
            return os.open(self.local / ".lock", flags | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise StoreError(f"{self.local / '.lock'} cannot be written ({error.strerror}); is it a link? Remove it") from error

    def _owner(self) -> str:
        try:
            with open(self._lock_file(os.O_RDONLY)) as file:
                return file.read().strip() or "another process"
        except StoreError:
            return "another process"


def read_tensors(path: Path) -> dict[str, Tensor]:
    with safe_open(path, "pt") as file:
        return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 — safe_open is no mapping


class StoreWarning(DataWarning):
    """Something about a run's store that its user should see to."""


def private_folder() -> Path:
    """Where copies of remote files are kept: the user's own, so that nobody else can put others in their place."""
    base = Path(os.environ.get("RESIDUAL_AUDIO_CACHE") or "~/.cache/residual-audio").expanduser()
    folder = base / "remote"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    known = folder.lstat()
    if not stat.S_ISDIR(known.st_mode) or known.st_uid != os.geteuid():
        raise StoreError(f"{folder} is not a folder of your own; remove it, or set RESIDUAL_AUDIO_CACHE to one")
    folder.chmod(0o700)
    return folder


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def shard_name(number: int) -> str:
    return f"shards/{number:05d}.safetensors"
