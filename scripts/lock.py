"""Write requirements.lock: constraints.txt without torch, with the SHA-256 of every file that an index has of those versions.

    python scripts/lock.py --index URL_OF_A_SIMPLE_INDEX

torch is left out, because its builds for CPU and for CUDA bear the same version and differ; `make setup` installs it without.
Only files for Python 3.11 and later on common platforms are listed.
"""

from __future__ import annotations

import argparse
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = {"torch"}
HEADER = (
    "# Everything that `make setup` installs except torch, with hashes: constraints.txt as an index states it.\n"
    "# Refresh after a change of constraints.txt: python scripts/lock.py --index URL\n"
)
LINK = re.compile(r'href="[^"]*?([^/"#]+)#sha256=([0-9a-f]{64})"')
PYTHONS = re.compile(r"-(py3|py2\.py3|cp31[1-9]|cp3\d+-abi3)")
PLATFORMS = re.compile(r"(any|manylinux[\w.]*(x86_64|aarch64)|macosx[\w.]*|win_amd64)\.whl$")


def simple(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def listed(filename: str, name: str, version: str) -> bool:
    """Whether a file is a wheel of that version that somebody of ours could install."""
    parts = filename.removesuffix(".whl").split("-")
    right = filename.endswith(".whl") and simple(parts[0]) == simple(name) and parts[1] == version
    return right and bool(PYTHONS.search(filename)) and bool(PLATFORMS.search(filename))


def hashes(index: str, name: str, version: str) -> list[str]:
    """The hashes of the wheels of one version, or of its source where there is no wheel."""
    with urlopen(f"{index.rstrip('/')}/{simple(name)}/", timeout=60) as response:
        files = [(unquote(file), digest) for file, digest in LINK.findall(response.read().decode())]
    wheels = [digest for file, digest in files if listed(file, name, version)]
    sources = [digest for file, digest in files if simple(file) == simple(f"{name}-{version}.tar.gz")]
    return sorted(set(wheels or sources))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", required=True, help="a simple index (PEP 503)")
    index = parser.parse_args().index
    pins = [line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line and not line.startswith("#")]
    pins = [(name, version.strip()) for name, version in pins if name not in LEFT_OUT]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda pin: hashes(index, *pin), pins))
    if absent := [name for (name, _), own in zip(pins, found, strict=True) if not own]:
        raise SystemExit(f"no file with a hash for {', '.join(absent)}")
    entries = [
        f"{name}=={version}" + "".join(f" \\\n    --hash=sha256:{h}" for h in own) for (name, version), own in zip(pins, found, strict=True)
    ]
    (ROOT / "requirements.lock").write_text(HEADER + "\n".join(entries) + "\n")
    print(f"{len(pins)} packages, {sum(map(len, found))} files")


if __name__ == "__main__":
    main()
