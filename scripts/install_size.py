"""How much room the package and what it needs take on disk, without extras and with each: from what is installed here.

    python scripts/install_size.py

torch is counted as it is installed here; its builds for CPU and for CUDA differ by gigabytes.
"""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text())["project"]


def closure(requirements: list[str]) -> set[str]:
    """All packages that these need, with the extras they ask for, on this machine."""
    todo, seen = [Requirement(r) for r in requirements], set[tuple[str, str]]()
    while todo:
        wanted = todo.pop()
        for extra in ("", *wanted.extras):
            key = (canonicalize_name(wanted.name), extra)
            if key in seen:
                continue
            seen.add(key)
            try:
                needed = [Requirement(r) for r in distribution(wanted.name).requires or []]
            except PackageNotFoundError as error:
                raise SystemExit(f"{wanted.name} is not installed here; run `make setup` first") from error
            todo += [r for r in needed if r.marker is None or r.marker.evaluate({"extra": extra})]
    return {name for name, _ in seen}


def size(name: str) -> int:
    """Bytes of the files of an installed package."""
    paths = [Path(str(file.locate())) for file in distribution(name).files or []]
    return sum(path.stat().st_size for path in paths if path.is_file())


def main() -> None:
    base = closure(PROJECT["dependencies"])
    sizes = {name: size(name) for name in base}
    print(f"without extras: {len(base)} packages, {sum(sizes.values()) / 1e6:.0f} MB")
    print("  largest: " + ", ".join(f"{n} {s / 1e6:.0f}" for n, s in sorted(sizes.items(), key=lambda i: -i[1])[:8]))
    for extra, requirements in PROJECT["optional-dependencies"].items():
        more = closure([*PROJECT["dependencies"], *requirements]) - base
        print(f"[{extra}]: {len(more)} more packages, {sum(map(size, more)) / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
