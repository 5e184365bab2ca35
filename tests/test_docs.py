"""The pages are true: every command parses, every option is read by somebody, every Python call fits, every file and link is there."""

import ast
import inspect
import re
import shlex
from functools import cache
from pathlib import Path

import pytest
import typer.main

import residual_audio as ra
from residual_audio.adaptation.methods import METHODS
from residual_audio.adaptation.recipe import all_options
from residual_audio.cli import app
from residual_audio.comparison.protocol import bare
from residual_audio.comparison.search import plan
from residual_audio.units import UnitTable

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
OTHER_PAGES = [ROOT / "benchmarks" / "README.md", ROOT / "src" / "residual_audio" / "models" / "tiny" / "README.md"]
# Every label that a page may use has its place here, whatever the encoder.
UNITS = UnitTable(((32,) * 12,) * 4, (8,) * 4, (256,) * 4)
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


@cache
def commands() -> dict:
    return typer.main.get_command(app).commands


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def fences(page: Path, language: str) -> list[str]:
    return [text for kind, text in FENCE.findall(page.read_text()) if kind == language]


def inline(page: Path) -> list[str]:
    """Code within lines."""
    return re.findall(r"`([^`\n]+)`", FENCE.sub("", page.read_text()))


def flags(verb: str) -> set[str]:
    return {flag for parameter in commands()[verb].params for flag in (*parameter.opts, *parameter.secondary_opts) if flag.startswith("--")}


def parsed(line: str) -> tuple[str, dict]:
    """The verb of a command line and its parameters, as the real command reads them; nothing is run."""
    verb, *rest = shlex.split(line, comments=True)[1:]
    assert verb in commands(), f"no verb {verb!r}"
    return verb, commands()[verb].make_context(verb, rest).params


def command_lines() -> list:
    """Those of the pages, and the examples in every verb's help."""
    places = {name_of(page): fences(page, "") for page in (*PAGES, *OTHER_PAGES)}
    places |= {f"{verb} --help": [command.help or ""] for verb, command in commands().items()}
    lines = [(place, line.strip()) for place, texts in places.items() for text in texts for line in text.splitlines()]
    return [pytest.param(line, id=f"{place}: {line[:60]}") for place, line in lines if line.startswith("residual-audio ")]


@pytest.mark.parametrize("line", command_lines())
def test_every_command_is_one_that_the_command_line_takes(line):
    verb, given = parsed(line)
    if given.get("units"):
        assert UNITS.select(given["units"])
    if verb in ("adapt", "compare", "few-shot", "search"):
        methods = given.get("methods") or given.get("method")
        chosen = list(METHODS) if methods == "all" else methods.split(",")
        texts = {name: given[name] for name in all_options() if given.get(name) is not None}
        specs = {name: next(iter(all_options()[name].values())) for name in texts}
        # What may be a number or a share comes as text.
        recipe = ra.Recipe(**{n: specs[n].parse(v) if isinstance(v, str) and len(specs[n].kinds[0]) > 1 else v for n, v in texts.items()})
        recipe.check(bare(chosen))
        if verb == "search":
            plan(UNITS, given["space"], recipe, given["settings"] or (), given["kind"], given["method"])


def test_commands_were_looked_at():
    assert len(command_lines()) > 80


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_options_in_the_text_exist(page):
    """``ask --clip`` is an option of that verb, ``--limit`` alone one of some verb."""
    anywhere = set().union(*map(flags, commands())) | {"--help", "--version"}
    for code in inline(page):
        words = code.removeprefix("residual-audio ").split()
        known = flags(words[0]) | {"--help"} if words and words[0] in commands() else anywhere
        if words and (words[0] in commands() or words[0].startswith("--")):
            unknown = [w for w in re.findall(r"(?<!\S)--[a-z][\w-]*", code) if w not in known]
            assert not unknown, f"`{code}`: no option {', '.join(unknown)}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_on_the_pages_fits_the_package(page):
    """Names of ``ra`` exist, and calls of them fit their signatures; options of a recipe are options of a method."""
    blocks = fences(page, "python") + [code for code in inline(page) if code.startswith("ra.") and "…" not in code]
    for node in (node for text in blocks for node in ast.walk(ast.parse(text))):
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "ra":
            assert hasattr(ra, node.attr), f"no ra.{node.attr}"
        if isinstance(node, ast.Call) and getattr(getattr(node.func, "value", None), "id", "") == "ra":
            named = {k.arg: ast.literal_eval(k.value) if isinstance(k.value, ast.Constant) else None for k in node.keywords}
            function = getattr(ra, node.func.attr)
            inspect.signature(function).bind(*[None] * len(node.args), **named)
            if function is ra.Recipe:
                ra.Recipe(**named)
    for name in re.findall(r"\bra\.(\w+)", " ".join(inline(page))):
        assert hasattr(ra, name), f"no ra.{name}"


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=name_of)
def test_files_and_links_are_there(page):
    text = page.read_text()
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        assert "://" in link or (page.parent / link).exists(), f"no {link}"
    for path in re.findall(r"[\w/]*\w+/\w+\.py\b", text):
        assert (ROOT / path).exists() or (ROOT / "src" / "residual_audio" / path).exists(), f"no {path}"
