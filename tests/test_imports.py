"""Who may import whom (DESIGN): rooms look in one direction, and importing the package costs nothing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "residual_audio"
ALLOWED = {
    "units": set(),
    "audio": set(),
    # Images are the sounds of vision towers: what cannot be read is of one family of errors.
    "images": {"audio"},
    "data": {"audio", "images"},
    "decomposition": {"units"},
    "spectra": {"units"},
    "models": {"units", "audio", "images"},
    "extraction": {"units", "audio", "images", "data", "decomposition", "spectra", "models"},
    "analysis": {"units", "spectra", "decomposition"},
    # Gains are attached through the one recorder, and trained on streams that it caches.
    "adaptation": {"models", "spectra", "units", "extraction", "audio"},
    "evaluation": {"models", "data"},
    # What puts rooms together: an ablation runs a model and evaluates it, a comparison adapts and evaluates.
    # What the page shows of a model also puts meaning's maps and shares together with an adapter's gains.
    "studies": {"units", "audio", "data", "decomposition", "spectra", "models", "extraction", "analysis", "adaptation", "evaluation"}
    | {"meaning"},
    # Words for units come from stored shares; models are opened to embed texts, and one clip for its map.
    "meaning": {"units", "data", "decomposition", "spectra", "models", "extraction", "analysis", "evaluation"},
    # The page reads a run's arrays, decodes its clips and counts who was right; what needs a model is handed over as arrays.
    "report": {"units", "audio", "data", "extraction", "spectra", "evaluation"},
    "cli": None,
}


def room_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imports(path: Path) -> set[str]:
    """The rooms that a file imports, anywhere in it."""
    found = set()
    inside = path.relative_to(PACKAGE).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            if node.level:
                base = inside[: len(inside) - node.level + 1]
                target = [*base, *(node.module.split(".") if node.module else [])]
                found |= {target[0]} if target else {alias.name for alias in node.names}
            elif node.module and node.module.split(".")[0] == "residual_audio":
                found.add([*node.module.split("."), ""][1])
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("residual_audio.")}
    return found


FILES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_direction(path):
    room = room_of(path)
    assert room in ALLOWED, f"{room} is no room of the design"
    others = imports(path) - {room}
    if room == "cli":
        return
    assert "cli" not in others
    assert others <= ALLOWED[room], f"{path.name} in {room} imports {sorted(others - ALLOWED[room])}"


def test_the_check_sees_what_it_should(tmp_path):
    assert imports(PACKAGE / "models" / "clap.py") == {"audio", "models"}
    assert imports(PACKAGE / "cli" / "output.py") >= {"data", "models", "report"}


def test_importing_the_package_loads_nothing_heavy():
    program = (
        "import sys, residual_audio, residual_audio.cli; print(sorted({'torch', 'transformers', 'pandas', 'scipy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == "[]"
