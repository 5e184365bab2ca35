"""Where a dataset comes from and how it has to lie on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .clip import DataError
from .fetch import Remote, fetch


@dataclass(frozen=True)
class Origin:
    """``markers`` are paths of which one must exist in the root (or one folder below it: archives like to add one)."""

    name: str
    page: str
    layout: str
    markers: tuple[str, ...]
    remotes: tuple[Remote, ...]

    def find(self, root: Path) -> Path | None:
        """The marker's path, or None where the dataset is not."""
        if not root.is_dir():
            return None
        below = sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
        return next((f / m for f in (root, *below) for m in self.markers if (f / m).exists()), None)

    def locate(self, root: str | Path) -> Path:
        """The marker's path, or an error that says what was expected where, and how to get it."""
        root = Path(root).expanduser()
        if (marker := self.find(root)) is None:
            why = "not in" if root.is_dir() else "there is no folder"
            raise DataError(
                f"{self.name}: {why} {root} (looked for {' or '.join(self.markers)}). Expected layout:\n{self.layout}\n"
                f"Get it from {self.page}, or let it be fetched from {self.addresses}: download=True (--download)."
            )
        return marker

    @property
    def addresses(self) -> str:
        return " and ".join(remote.url for remote in self.remotes)

    def ensure(self, root: str | Path) -> None:
        """Fetch what is not there yet."""
        root = Path(root).expanduser()
        if self.find(root) is None:
            try:
                fetch(self.remotes, root)
            except DataError as error:
                raise DataError(
                    f"{self.name}: {error}\nBy hand: get it from {self.page} and unpack it into {root} as\n{self.layout}"
                ) from error
