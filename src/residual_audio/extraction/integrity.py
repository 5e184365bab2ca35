"""Is what lies in a run what was written? Every file has its digest, and every shard the clips it was given.

A shard's digest is written beside it before the shard itself gets its name, so that there is never a shard without one; a finished run
keeps them all in ``run.json``. A file that was swapped, copied, cut, changed or removed is named by whoever reads it, and
``residual-audio extract`` makes exactly those again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from ..data import Clip
from .store import Store, StoreError, digest_of

DIGESTS = "digests"
MEND = "the same `residual-audio extract` command makes it again"


class Verified:
    """Checks a run's files against their digests, each once."""

    def __init__(self, store: Store, digests: Mapping[str, str]) -> None:
        self.store, self.digests = store, digests
        self._seen: dict[str, Path] = {}

    def reading(self, name: str) -> Path:
        """A local path of a file that is what was written; what is not raises :class:`StoreError`."""
        if name not in self._seen:
            if not self.store.exists(name):
                if name not in self.digests:
                    raise FileNotFoundError(f"{self.store.address}: {name}")  # it was not asked for when the run was made
                raise StoreError(f"{self.store.address}: {name} is missing; {MEND}")
            path = self.store.reading(name)
            expected = self.digests.get(name)
            if expected is not None and digest_of(path) != expected:
                raise StoreError(f"{self.store.address}: {name} is not the file that was written (damaged or replaced); {MEND}")
            self._seen[name] = path
        return self._seen[name]


def fates(path: Path) -> list[dict[str, Any]]:
    """What a shard says of each of its clips: ``id``, ``error`` and ``stamp``."""
    try:
        with safe_open(path, "pt") as file:
            return list(json.loads(file.metadata()["clips"]))
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{path}: not a shard, or cut off ({error}); {MEND}") from error


def stamp(clip: Clip) -> list[int] | None:
    """Size and time of a clip's file: another file of the same name is another clip. None where there is no file."""
    if clip.synthetic:
        return None
    try:
        known = Path(clip.path).stat()
    except (OSError, ValueError):
        return None
    return [known.st_size, known.st_mtime_ns]


def shard_problem(store: Store, name: str, clips: Sequence[Clip]) -> str:
    """Why a shard has to be made (again); empty where it is sound and of these very clips."""
    if not store.exists(name):
        return "is missing"
    beside = digest_name(name)
    if not store.exists(beside):
        return "has no digest"
    path = store.reading(name)
    if digest_of(path) != store.read_text(beside):
        return "is damaged or replaced"
    there = [(fate["id"], fate.get("stamp")) for fate in fates(path)]
    if [id for id, _ in there] != [clip.id for clip in clips]:
        return "holds other clips"
    changed = [clip.id for clip, (_, known) in zip(clips, there, strict=True) if stamp(clip) != known]
    return f"was made before {changed[0]} was changed" if changed else ""


def digest_name(name: str) -> str:
    return f"{DIGESTS}/{Path(name).name}.sha256"


def check_run(info: Mapping[str, Any], store: Store, ids: Sequence[str]) -> list[str]:
    """Everything that is wrong with a finished run's files, one line each."""
    digests: Mapping[str, str] = info.get("digests", {})
    verified, problems, found = Verified(store, digests), [], []
    if not digests:
        problems.append(f"{store.address}: has no digests (it is unfinished, or of an earlier version); {MEND}")
    for name in digests:
        try:
            path = verified.reading(name)
            if name.startswith("shards/"):
                found += [fate["id"] for fate in fates(path)]
        except StoreError as error:
            problems.append(str(error))
    surplus = [n for n in store.names("shards") if digests and f"shards/{n}" not in digests]
    problems += [f"{store.address}: shards/{name} belongs to no clip of the run; remove it" for name in surplus]
    if digests and not problems and found != list(ids):
        problems.append(f"{store.address}: its shards hold other clips than clips.parquet; {MEND}")
    return problems
