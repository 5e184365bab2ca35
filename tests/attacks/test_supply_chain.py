"""What `make setup` installs is pinned and verified, except torch, which is pinned."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
PINS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line)


def test_every_pin_has_hashes_except_torch():
    locked = dict(re.findall(r"^([\w.-]+)==(\S+) \\$", LOCK, re.M))
    assert locked == {name: version for name, version in PINS.items() if name != "torch"}
    for entry in re.split(r"\n(?=\w)", LOCK.split("\n", 2)[2].strip()):
        hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})(?= \\$|$)", entry, re.M)
        assert hashes, entry[:40]
        assert len(set(hashes)) == entry.count("--hash")


def test_the_makefile_installs_from_it_and_nothing_floats():
    make = (ROOT / "Makefile").read_text()
    assert "--require-hashes --no-deps --requirement requirements.lock" in make
    assert "--upgrade" not in make
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert build == [f"setuptools=={PINS['setuptools']}"]
    assert "pip" in PINS


def test_no_address_of_an_index_is_written_down():
    for name in ("requirements.lock", "constraints.txt", "Makefile", "pyproject.toml", "scripts/lock.py"):
        assert not re.findall(r"https?://(?!arxiv\.org/abs/)", (ROOT / name).read_text()), name
