"""Check an installed wheel where nothing else is: no extras, no source tree. Run by `make wheel` with the clean environment's Python.

CLEAN/bin/python scripts/check_wheel.py dist/residual_audio-….whl
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMAND = Path(sys.executable).with_name("residual-audio")
# What extras bring must not be here, or the check would not see that it is needed.
EXTRAS = ("matplotlib", "plotly", "ray", "datasets", "peft", "PIL", "optuna", "umap", "pytest")


def run(*words: str, status: int = 0) -> str:
    done = subprocess.run([COMMAND, *words], capture_output=True, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1", "COLUMNS": "120"})
    said = done.stdout + done.stderr
    if done.returncode != status:
        raise SystemExit(f"residual-audio {' '.join(words)} ended with {done.returncode}, expected {status}:\n{said}")
    return said


def expect(what: str, said: str) -> None:
    if what not in " ".join(said.split()):
        raise SystemExit(f"{what!r} was not said:\n{said}")


def main() -> None:
    wheel = Path(sys.argv[1]).resolve()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    if here := [name for name in EXTRAS if find_spec(name)]:
        raise SystemExit(f"this environment is not clean: {', '.join(here)}")
    home = Path(str(distribution("residual-audio").locate_file("residual_audio")))
    if ROOT / "src" in home.parents or f"-{version}-" not in wheel.name:
        raise SystemExit(f"not the wheel {wheel.name} of version {version}: {home}")
    expect(version, run("--version"))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        said = run("demo", "--limit", "60", "--out", "demo")
        expect('no figures: matplotlib: not installed; pip install "residual-audio[report]"', said)
        expect('No page: plotly: not installed; pip install "residual-audio[report]"', said)
        expect("top1", run("zero-shot", "demo/folded", "notes", "--limit", "20"))
        expect('"residual-audio[report]"', run("report", "demo/run", status=2))
        expect('"residual-audio[ray]"', run("extract", "tiny", "notes", "--engine", "ray", "--out", "ray", status=2))
        tables = len(list(Path("demo").rglob("*.parquet")))
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, installed without extras; the demo wrote {tables} tables")


if __name__ == "__main__":
    main()
