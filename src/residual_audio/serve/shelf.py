"""Adapters that were saved or trained here: listed, saved, deleted, packed and folded."""

from __future__ import annotations

import json
import zipfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..adaptation.adapter import ADAPTER, CONFIG, WEIGHTS, read_config, save_adapter
from ..adaptation.fold import fold
from ..adaptation.gain import ResiDual
from ..adaptation.validate import AdapterError
from ..models.folding import FoldError
from ..writing import own_folder
from .entry import Entry
from .folder import Folder, name_of
from .limits import ADAPTERS
from .problems import Problem

KIND = "adapters"


class Shelf:
    """The adapters of one entry."""

    def __init__(self, folder: Folder, entry: Entry) -> None:
        self.folder, self.entry = folder, entry
        entry.find = self.find

    def find(self, name: str) -> Path | None:
        path = self.folder.of(self.entry.id, KIND, name)
        return path if (path / CONFIG).is_file() and (path / WEIGHTS).is_file() else None

    @property
    def names(self) -> list[str]:
        given = [] if self.entry.given is None else [self.entry.given[0]]
        return given + [name for name in self.folder.names(self.entry.id, KIND) if self.find(name) is not None]

    def listed(self) -> list[dict[str, Any]]:
        found = []
        for name in self.names:
            with suppress(AdapterError, OSError):
                found.append(self.record(name))
        return found

    def record(self, name: str) -> dict[str, Any]:
        path = self.entry.adapter(name)
        config = read_config(path)
        notes = config.get("notes")
        made = datetime.fromtimestamp((path / CONFIG).stat().st_mtime, UTC).isoformat(timespec="seconds")
        told = {str(k): v if isinstance(v, str) else json.dumps(v) for k, v in notes.items()} if isinstance(notes, dict) else {}
        given = self.entry.given is not None and name == self.entry.given[0]
        return {"name": name, "given": given, "numbers": config.get("trained_parameters"), "made": made, "notes": told}

    def free(self, name: str, replace: bool) -> Path:
        """Where a new adapter of that name goes; refused where one is and may not be replaced."""
        path = self.folder.of(self.entry.id, KIND, name_of(name))
        if self.entry.given is not None and name == self.entry.given[0]:
            raise Problem(409, "the adapter that the server was started with has that name; choose another")
        if path.exists() and not replace:
            raise Problem(409, "there is an adapter of that name; replace it, or choose another")
        if len(self.names) >= ADAPTERS:
            raise Problem(409, f"there are {ADAPTERS} adapters; delete some")
        return path

    def save(self, name: str, residual: ResiDual | None, replace: bool) -> dict[str, Any]:
        target = self.free(name, replace)
        if residual is None:
            raise Problem(422, "nothing was moved: this would be the model as it is")
        with self.folder.draft() as draft:
            self.folder.put(save_adapter(draft / name, self.entry.encoder, residual), target)
        self.entry.forget(name)
        return self.record(name)

    def delete(self, name: str) -> None:
        path = self.find(name_of(name))
        if path is None:
            raise Problem(404, "no adapter of that name was made here")
        self.folder.remove(path)
        self.entry.forget(name)

    def packed(self, name: str, to: Path) -> Path:
        """The adapter's own files as a zip."""
        path = self.entry.adapter(name)
        with zipfile.ZipFile(to, "w") as archive:
            for file in ADAPTER:
                if own_folder(path / file).is_file():
                    archive.write(path / file, f"{name}/{file}")
        return to

    def folded(self, name: str, draft: Path) -> Path:
        """The checkpoint with the adapter in its weights, as a zip; not packed smaller: weights do not shrink."""
        residual = self.entry.residual(name)
        assert residual is not None
        checkpoint, to = draft / "checkpoint", draft / "folded.zip"
        try:
            fold(self.entry.encoder, residual).save(checkpoint)
        except FoldError as error:
            raise Problem(422, str(error)) from error
        with zipfile.ZipFile(to, "w", allowZip64=True) as archive:
            for file in sorted(p for p in checkpoint.rglob("*") if p.is_file()):
                archive.write(file, f"{name}-folded/{file.relative_to(checkpoint)}")
        return to
