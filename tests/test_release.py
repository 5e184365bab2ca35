"""One version, one list of extras: what is repeated elsewhere agrees with pyproject.toml, and what is missing is told by name."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from residual_audio.lazy import MissingExtra, need

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SOURCES = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
# Verbs run in a process in which nothing of the extra `report` can be imported.
WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("matplotlib", "plotly"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import importlib.util
there = importlib.util.find_spec
def find_spec(name, package=None):
    return None if name in ("matplotlib", "plotly") else there(name, package)
importlib.util.find_spec = find_spec
from residual_audio.cli import main
for words in (sys.argv[1:sys.argv.index("then")], ["report", "nowhere"], ["ask", "nowhere", "rain", "--clip", "x"]):
    sys.argv = ["residual-audio", *words]
    try:
        main()
    except SystemExit as end:
        print("ended with", end.code)
import residual_audio as ra
try:
    ra.draw({}, "figures")
except ImportError as error:
    print(type(error).__name__, error)
"""


def test_the_version_is_said_once_and_repeated_right():
    assert re.fullmatch(r"\d+\.\d+\.\d+", PROJECT["version"])
    assert version("residual-audio") == PROJECT["version"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == PROJECT["version"]
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first.group(1) == PROJECT["version"]
    assert PROJECT["version"] not in SOURCES


def test_the_citation_has_what_its_format_asks_for():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert "2411.00246" in citation["references"][0]["url"]


def test_every_extra_is_in_dev_and_on_the_page():
    extras = PROJECT["optional-dependencies"]
    page = (ROOT / "docs" / "install.md").read_text()
    for name, requirements in extras.items():
        assert f"| `{name}` |" in page
        assert set(requirements) <= set(extras["dev"]), name


def test_every_extra_that_is_named_in_an_error_exists():
    named = set(re.findall(r"residual-audio\[(\w+)\]", SOURCES)) | set(re.findall(r'need\("(\w+)"', SOURCES))
    assert named - {"extra"} <= set(PROJECT["optional-dependencies"])
    assert {"report", "ray"} <= named


def test_every_dependency_is_imported_and_every_import_is_a_dependency():
    """By the names of modules; what others bring along is not for us to import."""
    modules = {"scikit-learn": "sklearn", "huggingface_hub": "huggingface_hub", "jinja2": "jinja2"}
    imported = set(re.findall(r"^\s*(?:import|from) (\w+)", SOURCES, re.MULTILINE))
    names = [re.match(r"[\w-]+", r).group() for r in PROJECT["dependencies"]]
    unused = {n for n in names if modules.get(n, n.replace("-", "_")) not in imported}
    assert unused <= {"statsmodels"}, unused


def test_a_missing_library_names_its_extra():
    need("report", "json")
    with pytest.raises(MissingExtra, match=r'no_such_module: not installed; pip install "residual-audio\[report\]"'):
        need("report", "json", "no_such_module")


def test_without_matplotlib_results_come_without_figures(sound_files, tmp_path):
    words = ["zero-shot", "tiny", str(sound_files[0]), "--over-time", "--text", "rain", "--text", "noise", "--out", str(tmp_path), "then"]
    done = subprocess.run([sys.executable, "-c", WITHOUT, *words], capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert re.findall(r"ended with (\d)", said) == ["0", "2", "2"], said
    assert 'no figures: matplotlib: not installed; pip install "residual-audio[report]"' in done.stdout
    assert (tmp_path / "tables" / "heard.csv").exists()
    assert not (tmp_path / "figures").exists()
    assert said.count('"residual-audio[report]"') == 4, "of the verb, `report`, `ask` and ra.draw"


def test_the_workflow_runs_what_ci_runs():
    flow = (ROOT / ".github" / "workflows" / "checks.yml").read_text()
    jobs = yaml.safe_load(flow)["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    wanted = re.findall(r"^make \w+", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert sorted(wanted) == sorted(re.findall(r"run: (make \w+)", flow)) == ["make docs", "make lint", "make test", "make wheel"]
    stated = [c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert stated == jobs["test"]["strategy"]["matrix"]["python"]
