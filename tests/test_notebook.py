"""The notebook runs from the first cell to the last, offline, and what is stored in it was computed by it."""

import re
import runpy
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="the notebook's test needs nbformat: pip install -e '.[dev]'")
pytest.importorskip("nbclient", reason="the notebook's test needs nbclient: pip install -e '.[dev]'")
pytest.importorskip("ipykernel", reason="the notebook's test needs a kernel: pip install -e '.[dev]'")

ROOT = Path(__file__).resolve().parents[1]
STORY = ROOT / "notebooks" / "story.ipynb"
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "run_notebook.py"))


def code(notebook) -> list:
    return [c for c in notebook.cells if c.cell_type == "code"]


def printed(cell) -> str:
    return "".join(o.text for o in cell.outputs if o.output_type == "stream" and o.name == "stdout")


def cell_with(notebook, text: str):
    return next(c for c in code(notebook) if text in c.source)


@pytest.fixture(scope="module")
def stored():
    return nbformat.read(STORY, as_version=4)


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    notebook = nbformat.read(STORY, as_version=4)
    for cell in code(notebook):
        cell.outputs, cell.execution_count = [], None
    return SCRIPT["execute"](notebook, tmp_path_factory.mktemp("notebook"))


def test_every_cell_runs(executed):
    cells = code(executed)
    assert [c.execution_count for c in cells] == list(range(1, len(cells) + 1))
    assert not [o for c in cells for o in c.outputs if o.output_type == "error"]
    assert sum("image/png" in o.get("data", {}) for c in cells for o in c.outputs) == 4


def test_what_it_claims_holds(executed):
    """The cells assert it themselves; here the numbers that they print are read."""
    number = r"(\d\.?\d*e[-+]\d+)"
    shares = float(re.search(rf"largest error {number}", printed(cell_with(executed, "joint_shares"))).group(1))
    folded = float(re.search(rf"folded − attached: {number}", printed(cell_with(executed, "ra.fold("))).group(1))
    plain = float(re.search(rf"transformers − attached: {number}", printed(cell_with(executed, "ClapModel.from_pretrained"))).group(1))
    assert shares < 1e-4
    assert folded < 1e-5
    assert plain < 1e-4
    for claim in ("assert error <", "assert difference <", "torch.testing.assert_close("):
        assert cell_with(executed, claim).execution_count


def test_stored_outputs_are_of_these_cells(stored, executed):
    nbformat.validate(stored)
    assert [c.execution_count for c in code(stored)] == [c.execution_count for c in code(executed)]
    kinds = [[[o.output_type for o in c.outputs if o.get("name") != "stderr"] for c in code(n)] for n in (stored, executed)]
    assert kinds[0] == kinds[1], "run scripts/run_notebook.py notebooks/story.ipynb"
    for text in ('ra.load_encoder("tiny")', "ra.zero_shot("):
        assert printed(cell_with(stored, text)) == printed(cell_with(executed, text)), "run scripts/run_notebook.py notebooks/story.ipynb"


def test_it_is_small_and_of_no_machine(stored):
    text = STORY.read_text(encoding="utf-8")
    assert len(text) < 300_000
    assert not re.search(r"/(work|home|root|tmp|Users)/", text)
    assert not any(o.get("name") == "stderr" for c in code(stored) for o in c.outputs)
    assert 20 <= len(stored.cells) <= 26
