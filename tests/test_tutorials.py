"""Every tutorial runs from its first line to its last, as a reader would: commands and Python in one folder, in order.

A block after `<!-- not run: reason -->` is parsed by test_docs.py only. A `text` block is what the Python block before it prints.
"""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r"(<!-- not run: [^\n]+ -->\n)?^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    """(language, text) of the blocks that are run, with what they print."""
    return [(kind, text) for skipped, kind, text in BLOCK.findall(page.read_text()) if not skipped]


def test_there_are_five_and_most_of_them_is_run():
    assert len(TUTORIALS) == 5
    found = [match for page in TUTORIALS for match in BLOCK.findall(page.read_text())]
    assert sum(bool(skipped) for skipped, _, _ in found) <= 3
    assert len(found) > 25


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda p: p.stem)
def test_a_tutorial_runs(page, tmp_path, monkeypatch, command, capsys):
    import shlex

    monkeypatch.chdir(tmp_path)
    names, printed, checked = {}, "", 0
    for kind, text in blocks(page):
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, page.name, "exec"), names)
            printed = out.getvalue()
            assert "False" not in printed, text
        elif kind == "text":
            # A reader sees these lines in what the last block printed, in this order.
            assert text.strip() in printed, f"{page.name} says\n{text}\nand this was printed:\n{printed}"
            checked += 1
        else:
            for line in filter(None, text.splitlines()):
                words = shlex.split(line, comments=True)
                assert words[0] == "residual-audio", line
                status = command(*words[1:])
                told = capsys.readouterr()
                assert status == 0, f"{line}\n{told.err}"
    assert checked or page.stem not in ("first-ten-minutes", "look-inside")
