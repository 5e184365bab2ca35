"""Which attack tests fail on the code of before: the tests of now, run in a copy of an older commit.

python benchmarks/attacks_before.py [COMMIT [TESTS ...]]     # default: ede23ca, tests/attacks and the rooms' own tests

A name that the older package does not have is replaced by a stand-in, so that a test fails where it uses the name, not where the file
imports it. Packages that only the older code needs (einops) have to be importable (PYTHONPATH). One line per test:

    fails before     the attack works on the older code, or it is refused in a way that the test does not accept
    is not there     the test asks for a function, an option or a file that the older code does not have
    passes before    a guard for what already held
"""

from __future__ import annotations

import builtins
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parents[1]
BEFORE = "ede23ca"
ROOMS = (
    "tests/attacks",
    "tests/data/test_columns.py",
    "tests/extraction/test_large.py",
    "tests/meaning/test_describe.py::test_the_time_is_told_beforehand",
    "tests/report/test_page_browser.py::test_an_address_that_is_not_understood_falls_back",
    "tests/test_progress.py",
)
OWN_HELPERS = ("tests/helpers/gains.py", "tests/helpers/page.py")
"""Made of what the package has: taken from the older commit."""
RENAMED = {
    "tests/attacks/test_adapters.py": (
        ("record[adapter.DIGEST] = adapter._digest(folder / adapter.WEIGHTS)", "pass"),
        ("0.values", "0.gain"),
        (".values", ".gain"),
        ("values=", "gain="),
        ('update(kind="tails")', 'update(form="tails")'),
        (", replace=True)", ")"),
        ("adapter.adapter_card", "adapter.card"),
    ),
    "tests/attacks/test_archives.py": (
        (
            "from residual_audio.data.unpack import unpack",
            "unpack = lambda archive, root, **limits: place(archive, Remote('http://x', 'md5:0', archive.name), root)",
        ),
    ),
    "tests/attacks/test_nothing_is_lost.py": (("screen.Screen", "screen.Console"),),
    "tests/attacks/test_store.py": (  # it wrote eight batches to a shard, however few clips there were
        (
            "WANTED =",
            "from residual_audio.extraction.shard import Settings\nSettings.shard_size = property(lambda own: own.batch_size)\nWANTED =",
        ),
    ),
    "tests/attacks/test_links.py": ((", replace=True)", ")"), ('form="gains", ', "")),
}
"""What is only called otherwise since ede23ca, per file: (now, then)."""
SECONDS = 180
"""A test that waits longer on the older code has failed."""
LARGEST_FILE, MOST_MEMORY = 2 << 30, 8 << 30


class NotThereError(Exception):
    """The older package does not have it."""


class StandIn:
    """A name that is not there: it may be imported, and nothing else."""

    def __init__(self, name: str) -> None:
        vars(self)["name"] = name

    def __call__(self, *args: object, **options: object) -> None:
        raise NotThereError(vars(self)["name"])

    def __getattr__(self, attribute: str) -> None:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise NotThereError(vars(self)["name"])


def stand_in(name: str) -> object:
    """An error that is never raised for the name of an error or a warning."""
    short = name.rpartition(".")[2]
    kind = UserWarning if short.endswith("Warning") else BaseException
    return type(short, (kind,), {}) if short.endswith(("Error", "Warning")) else StandIn(name)


class Lenient:
    """A module, with stand-ins for what it does not have."""

    def __init__(self, name: str, module: object) -> None:
        self._name, self._module = name, module

    def __getattr__(self, attribute: str) -> object:
        try:
            return getattr(self._module, attribute)
        except AttributeError:
            return stand_in(f"{self._name}.{attribute}")


real_import = builtins.__import__


def lenient_import(name, globals=None, locals=None, fromlist=(), level=0):
    asks = (globals or {}).get("__name__", "").startswith(("tests.", "benchmarks."))
    if not (asks and fromlist and name.startswith("residual_audio")):
        return real_import(name, globals, locals, fromlist, level)
    try:
        return Lenient(name, real_import(name, globals, locals, fromlist, level))
    except ModuleNotFoundError as missing:
        if not str(missing.name).startswith("residual_audio"):
            raise
        return Lenient(name, SimpleNamespace())


# What pytest calls, when this file is its plugin.


def pytest_configure(config) -> None:
    builtins.__import__ = lenient_import


def pytest_runtest_setup(item) -> None:
    def late(*args: object) -> None:
        raise TimeoutError(f"not over after {SECONDS} s")

    free = Path(item.path).stem in ("test_network", "test_page_browser")  # Ray and Chromium reserve far more than they take
    for kind, most in ((resource.RLIMIT_FSIZE, LARGEST_FILE), (resource.RLIMIT_AS, MOST_MEMORY)):
        resource.setrlimit(kind, (resource.RLIM_INFINITY if free else most, resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)


def pytest_runtest_teardown(item) -> None:
    signal.alarm(0)


ABSENT = re.compile("NotThereError|module .* has no attribute|unexpected keyword argument|No module named|No such (option|command)")


def pytest_runtest_logstart(nodeid, location) -> None:
    print(f"\n> {nodeid}", flush=True)


def pytest_runtest_logreport(report) -> None:
    if report.when == "call" or report.outcome != "passed":
        if report.when == "teardown":
            return
        said = str(report.longrepr).strip().splitlines() if report.failed else [""]
        reasons = [line for line in said if line.startswith("E ")] or said
        absent = any(ABSENT.search(line) for line in reasons)
        verdict = {"passed": "passes before", "skipped": "skipped"}.get(report.outcome, "is not there" if absent else "fails before")
        print(f"\n@ {verdict} | {report.nodeid} | {reasons[0].removeprefix('E').strip()[:160]}", flush=True)


def judged(older: Path, tests: str) -> Iterator[tuple[str, ...]]:
    """(verdict, test, first line of what it said) of every test of a file, in the folder of the older commit.

    A test that ends the process (it takes all memory) has failed, and those after it are run in another one.
    """
    paths = os.pathsep.join((str(older / "src"), str(older / "benchmarks"), os.environ.get("PYTHONPATH", "")))
    words = [sys.executable, "-m", "pytest", "-p", "attacks_before", "-p", "no:cacheprovider", "--rootdir", str(older), tests]
    over: list[str] = []
    while True:
        done = subprocess.run(
            [*words, *(f"--deselect={name}" for name in over)],
            cwd=older, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        rows = [tuple(line[2:].split(" | ", 2)) for line in done.stdout.splitlines() if line.startswith("@ ")]
        begun = [line[2:] for line in done.stdout.splitlines() if line.startswith("> ")]
        yield from rows
        over += [row[1] for row in rows]
        if done.returncode >= 0 or not begun:
            break
        over.append(begun[-1])
        yield "fails before", begun[-1], f"ends the process (signal {-done.returncode})"
    if not over:
        yield "not collected", tests, done.stdout[-300:]


def main() -> None:
    commit, *tests = sys.argv[1:] or [BEFORE]
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        older = Path(folder) / "project"
        older.mkdir()
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "x", "-C", older], input=archive, check=True)
        for name in ("tests", "benchmarks"):
            shutil.rmtree(older / name)
            shutil.copytree(ROOT / name, older / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in OWN_HELPERS:
            then = subprocess.run(["git", "show", f"{commit}:{name}"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
            (older / name).write_bytes(then)
        for name, pairs in RENAMED.items():
            text = (older / name).read_text()
            for now, then in pairs:
                text = text.replace(now, then)
            (older / name).write_text(text)
        for test in tests or ROOMS:
            inside = sorted((ROOT / test).glob("test_*.py"))
            for file in [str(path.relative_to(ROOT)) for path in inside] or [test]:
                for verdict, name, said in judged(older, file):
                    counts[verdict] += 1
                    print(f"{verdict:14} {name}  {said}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))


if __name__ == "__main__":
    main()
