"""How an encoder is opened, and the record from which it can be opened again."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..options import Options, option, option_specs


@dataclass(frozen=True)
class Loading(Options):
    """How a checkpoint is opened. The device is no part of it: results do not depend on it."""

    seconds: float | None = option(None, "Window length of encoders that let one choose (Whisper).")
    crop: str | None = option(
        None, "What is kept of long clips: start, centre or windows (several windows, averaged); default: start.",
        choices=("start", "centre", "windows"),
    )  # fmt: skip
    pad: str | None = option(
        None, "How short clips are filled: repeatpad, repeat or pad; default: the checkpoint's own.", choices=("repeatpad", "repeat", "pad")
    )
    fast: bool = option(True, "Run HTS-AT's attention fused: the same numbers to rounding, in less time.")


@dataclass(frozen=True)
class Running(Loading):
    """How a checkpoint is opened by verbs that only run it, and the precision of its products."""

    precision: str | None = option(
        None,
        "Of products: float32, bf16, or auto (bf16 where this machine is faster with it). Sums, norms and pooling stay float32. Default: "
        "float32, or that of an exported file.",
        choices=("float32", "bf16", "auto"),
    )


@dataclass(frozen=True)
class Loaded:
    """What was opened and how: ``source`` as it was given, ``address`` the same from any working folder (a path made absolute)."""

    source: str
    address: str
    options: Loading = Loading()

    def record(self) -> dict[str, Any]:
        """As a run keeps it."""
        return {"source": self.source, "address": self.address, **asdict(self.options)}

    @classmethod
    def of(cls, record: dict[str, Any]) -> Loaded:
        """From a run's record."""
        return cls(record["source"], record["address"], Loading(**{name: record[name] for name in option_specs(Loading)}))


def split_revision(source: str) -> tuple[str, str | None]:
    """``REPO@COMMIT`` → the hub repository and the commit, branch or tag that is asked for; a path stays as it is."""
    name, at, revision = source.rpartition("@")
    return (name, revision) if at and revision and name and not Path(source).expanduser().exists() else (source, None)
