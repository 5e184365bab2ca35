"""docs/papers.md is true: every row names a file, a command that the command line takes, and a test, and all of them exist."""

import ast
import re
from functools import cache

import pytest

from residual_audio.reproduction.findings import FINDINGS
from residual_audio.reproduction.reproduce import choose
from residual_audio.reproduction.targets import TARGETS
from tests.test_docs import ROOT, parsed

PAGE = ROOT / "docs" / "papers.md"
SOURCE = ROOT / "src" / "residual_audio"


def rows() -> list[dict[str, str]]:
    """Every line of every table, by the names of its columns."""
    found, names = [], []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            names = []
        elif not names:
            names = cells
        elif set(line) - set("|-: "):
            assert len(cells) == len(names), line
            found.append(dict(zip(names, cells, strict=True)))
    return found


@cache
def names_in(path: str) -> set[str]:
    return {node.name for node in ast.parse((ROOT / path).read_text()).body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", [pytest.param(row, id=row["what"][:70]) for row in rows()])
def test_every_row_names_what_exists(row):
    code = {name: re.findall(r"`([^`]+)`", row[name]) for name in ("where", "command", "test")}
    link = re.findall(r"\]\(([^)]+)\)", row["where"])
    assert all((SOURCE / path).exists() for path in code["where"]), row["where"]
    assert all((PAGE.parent / path).exists() for path in link), row["where"]
    assert code["where"] or link
    assert len(code["command"]) == len(code["test"]) == 1
    verb, given = parsed(code["command"][0])
    if verb == "reproduce":
        assert choose(given["tables"] or []) == sorted(given["tables"] or [], key=list(TARGETS).index)
    path, _, name = code["test"][0].partition("::")
    assert name in names_in(path), f"no {name} in {path}"


def test_nothing_is_left_out():
    """Every published table and figure that can be reproduced, every finding and every preset has its row."""
    text = PAGE.read_text()
    assert len(rows()) > 80
    assert not [name for name in TARGETS if not re.search(rf"\b{re.escape(name)}\b", text)]
    assert not [finding.name for finding in FINDINGS if f"`{finding.name}`" not in text]
