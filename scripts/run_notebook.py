"""Execute a notebook from the first cell to the last and store its outputs, so that they are real.

python scripts/run_notebook.py notebooks/story.ipynb          # writes the outputs into the file
python scripts/run_notebook.py notebooks/story.ipynb --check  # only runs it; fails where a cell fails
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

# Metadata that differs between runs or machines and carries no information.
NOISE = ("execution", "papermill", "widgets")


def execute(notebook: nbformat.NotebookNode, folder: str | Path, seconds: int = 600) -> nbformat.NotebookNode:
    """Run every cell in ``folder``, in a new kernel of the current Python; returns the same notebook with its outputs."""
    where = {"metadata": {"path": str(folder)}}
    # Join the pieces of a stream: how it is split depends on the load of the machine.
    NotebookClient(notebook, timeout=seconds, kernel_name="python3", resources=where, coalesce_streams=True).execute()
    return notebook


def clean(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Without times, the name of this machine's kernel, or the error stream (progress and hints)."""
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
            "language_info": {"name": "python"},
        }
    )
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02d}"
        cell.metadata = nbformat.from_dict({k: v for k, v in cell.metadata.items() if k not in NOISE})
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
    return notebook


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--check", action="store_true", help="do not write the outputs")
    given = parser.parse_args()
    start = time.perf_counter()
    notebook = nbformat.read(given.notebook, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        try:
            execute(notebook, folder)
        except CellExecutionError as error:
            sys.exit(f"{given.notebook}: {error}")
    if not given.check:
        nbformat.write(clean(notebook), given.notebook)
    print(f"{given.notebook}: {len(notebook.cells)} cells in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
