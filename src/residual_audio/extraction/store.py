"""How a run is kept: numbered shards of safetensors, each written under a temporary name and renamed.

A shard is complete or absent, never half. It holds the arrays of its readable clips, the moments of those clips,
and in its header the fate of every clip it was given. The folder may be local or any fsspec address.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from ..writing import drafted


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
        """A temporary path to write to; on leaving it becomes ``name``, and if writing failed nothing is left of it."""
        if self.local is not None:
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
        key = f"{root.strip('/')}/{name}".replace("/", "_")
        cached = Path(tempfile.gettempdir()) / "residual-audio" / str(files.ukey(f"{root}/{name}")) / key
        if not cached.exists():
            with drafted(cached) as draft:
                files.get_file(f"{root}/{name}", str(draft))
        return cached

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        with self.writing(name) as path:
            path.write_text(json.dumps(content, indent=2, default=str) + "\n")

    def read_json(self, name: str) -> dict[str, Any]:
        files, root = self._files
        content: dict[str, Any] = json.loads(files.cat_file(f"{root}/{name}"))
        return content

    def write_tensors(self, name: str, tensors: dict[str, Tensor], header: dict[str, str] | None = None) -> None:
        with self.writing(name) as path:
            save_file({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, path, metadata=header or {})

    def read_tensors(self, name: str) -> dict[str, Tensor]:
        with safe_open(self.reading(name), "pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 — safe_open is no mapping

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process at a time may write a local run; the lock goes with the process, however it ends."""
        if self.local is None:
            yield
            return
        import fcntl

        self.local.mkdir(parents=True, exist_ok=True)
        with open(self.local / ".lock", "a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.seek(0)
                owner = file.read().strip() or "another process"
                raise StoreError(f"{self.address} is being written by {owner}; wait for it, or choose another --out") from error
            file.truncate(0)
            file.write(f"process {os.getpid()}")
            file.flush()
            yield


def shard_name(number: int) -> str:
    return f"shards/{number:05d}.safetensors"
