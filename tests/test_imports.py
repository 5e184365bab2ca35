"""Who may import whom (DESIGN): rooms look in one direction, and importing the package costs nothing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "residual_audio"
# The rooms in the order of docs/architecture.md: a room may import those before it, and nobody imports the command line.
ROOMS = (
    *(
        "lazy",
        "registry",
        "options",
        "writing",
        "spelling",
        "progress",
        "rounding",
        "sampling",
        "media",
        "workers",
        "units",
        "results",
        "audio",
        "images",
        "data",
        "decomposition",
        "spectra",
        "models",
    ),
    *("extraction", "analysis", "evaluation", "exporting", "ablation", "adaptation", "meaning", "comparison", "reproduction"),
    *("report", "serve", "peft", "hear", "mteb", "cli"),
)
# Arrays and tables in, arrays and tables out: these never see a model, a store or a sound.
PURE = {"audio", "images", "data", "models", "extraction"}
FORBIDDEN = {"decomposition": PURE, "spectra": PURE, "analysis": PURE}


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
    assert room in ROOMS, f"{room} is no room of the design"
    allowed = set(ROOMS[: ROOMS.index(room)]) - FORBIDDEN.get(room, set())
    others = imports(path) - {room}
    assert others <= allowed, f"{path.name} in {room} imports {sorted(others - allowed)}"


def test_the_check_sees_what_it_should(tmp_path):
    assert imports(PACKAGE / "models" / "encoders" / "ast.py") == {"audio", "models"}
    assert imports(PACKAGE / "cli" / "compare.py") >= {"adaptation", "comparison", "models"}
    assert "report" in imports(PACKAGE / "cli" / "figures.py")


def test_importing_the_package_loads_nothing_heavy():
    program = (
        "import sys, residual_audio, residual_audio.cli; print(sorted({'torch', 'transformers', 'pandas', 'scipy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == "[]"
