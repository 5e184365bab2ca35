"""docs/architecture.md is true: every room and every registry is on it, and every folder that it names is there."""

import importlib
import pkgutil
import re
from pathlib import Path

import residual_audio
from residual_audio.registry import Registry

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PACKAGE = Path(residual_audio.__file__).parent


def rows(heading: str) -> list[str]:
    section = PAGE.split(f"## {heading}", 1)[1].split("\n## ", 1)[0]
    return [line for line in section.splitlines() if line.startswith("| ")][1:]


def test_every_room_is_on_the_page_and_every_row_is_a_room():
    on_page = {word for row in rows("The rooms") for word in re.findall(r"`(\w+)`", row.split("|")[1])}
    there = {m.name for m in pkgutil.iter_modules([str(PACKAGE)]) if not m.name.startswith("_")}
    assert on_page == there


def test_the_page_and_the_imports_name_the_same_order():
    from tests.test_imports import ROOMS

    on_page = [word for row in rows("The rooms") for word in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(on_page) == sorted(ROOMS)
    large = [r for r in ROOMS if (PACKAGE / r).is_dir()]
    assert [r for r in on_page if r in large] == large


def test_every_registry_is_on_the_page():
    registries = set()
    for module in pkgutil.walk_packages(residual_audio.__path__, "residual_audio."):
        if not module.name.endswith("__main__"):
            found = vars(importlib.import_module(module.name)).values()
            registries |= {
                thing.package.removeprefix("residual_audio.").replace(".", "/") for thing in found if isinstance(thing, Registry)
            }
    on_page = {folder for row in rows("Where do I add") for folder in re.findall(r"`([\w/]+)/`", row.split("|")[2])}
    assert on_page == registries
    assert all((PACKAGE / folder).is_dir() for folder in on_page)


def test_contributing_points_here():
    assert "docs/architecture.md" in (ROOT / "CONTRIBUTING.md").read_text()
