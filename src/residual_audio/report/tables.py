"""Tables for papers: Markdown and LaTeX."""

from __future__ import annotations

import re
from itertools import pairwise
from numbers import Integral, Real
from pathlib import Path

import pandas as pd

from ..results import csv_text
from ..rounding import MISSING, fixed
from ..writing import drafted, own_folder

NUMBER = r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?"
AMOUNT = re.compile(rf"[<>]?\s*{NUMBER}( (±|to) ({NUMBER}|{MISSING}))?|{MISSING}")

# What Markdown would read as markup. An underscore between letters or digits is not, so that pca_99 stays readable.
MARKDOWN = re.compile(r"[\\|*`~$]|<(?=[A-Za-z/!?])|&(?=[#A-Za-z])|(?<=\])\(|_(?![^\W_])|(?<![^\W_])_")
LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "|": "$|$",
    "±": r"$\pm$", "−": "$-$", "×": r"$\times$", "≤": r"$\leq$", "≥": r"$\geq$", "→": r"$\to$", "²": "$^{2}$",
    "Δ": r"$\Delta$", "η": r"$\eta$", "ε": r"$\varepsilon$", "λ": r"$\lambda$", "μ": r"$\mu$", "ρ": r"$\rho$", "σ": r"$\sigma$",
    "–": r"\textendash{}", "—": r"\textemdash{}", "…": r"\ldots{}", "`": r"\textasciigrave{}",
}  # fmt: skip


def write_paper_table(table: pd.DataFrame, folder: Path, name: str, title: str) -> None:
    """``folder/name.csv``, ``.md`` (title above the table) and ``.tex`` (a table environment for booktabs)."""
    flat = table.reset_index() if table.index.name else table
    texts = {"md": to_markdown(table, title=title), "tex": to_latex(table, caption=title, label=f"tab:{name}")}
    own_folder(folder)
    for ending, text in {"csv": csv_text(flat), **texts}.items():
        with drafted(folder / f"{name}.{ending}") as path:
            path.write_text(text, encoding="utf-8")


def to_markdown(table: pd.DataFrame, title: str = "", decimals: int | dict[str, int] | None = None) -> str:
    """A GitHub-flavoured table; numbers to the right. ``decimals``: for all columns of floats, or by column; else four digits count."""
    header, body = _cells(table, decimals)
    rows = [[_markdown(cell) for cell in row] for row in [header, *body]]
    right = _right(body, len(header))
    width = [max([3, *(len(row[i]) for row in rows)]) for i in range(len(header))]
    rule = ["-" * (w - 1) + ":" if r else "-" * w for w, r in zip(width, right, strict=True)]
    aligned = [[c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, width, right, strict=True)] for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in [aligned[0], rule, *aligned[1:]]]
    return "\n".join([*([_markdown(title), ""] if title else []), *lines]) + "\n"


def to_latex(table: pd.DataFrame, caption: str = "", label: str = "", decimals: int | dict[str, int] | None = None) -> str:
    """A booktabs ``tabular``, inside a ``table`` environment if it has a caption or a label. Needs ``\\usepackage{booktabs}``."""
    header, body = _cells(table, decimals)
    columns = "".join("r" if r else "l" for r in _right(body, len(header)))
    # An opening bracket or star at the start of a row would be an argument of the \\ or \midrule before it.
    lines = [re.sub(r"^(?=[\[*])", "{}", " & ".join(map(_latex, row))) + r" \\" for row in [header, *body]]
    rows = ["\\toprule", lines[0], "\\midrule", *lines[1:], "\\bottomrule"]
    inner = [f"\\begin{{tabular}}{{@{{}}{columns}@{{}}}}", *rows, "\\end{tabular}"]
    if not caption and not label:
        return "\n".join(inner) + "\n"
    top = ["\\begin{table}[t]", "\\centering", *([f"\\caption{{{_latex(caption)}}}"] if caption else [])]
    return "\n".join([*top, *([f"\\label{{{label}}}"] if label else []), *inner, "\\end{table}"]) + "\n"


def _cells(table: pd.DataFrame, decimals: int | dict[str, int] | None) -> tuple[list[str], list[list[str]]]:
    flat = table.reset_index() if table.index.name else table
    places = decimals if isinstance(decimals, dict) else dict.fromkeys(flat.columns, decimals)
    header = [_plain(str(c)) for c in flat.columns]
    columns = [[_cell(value, places.get(c)) for value in flat.iloc[:, i]] for i, c in enumerate(flat.columns)]
    return header, [list(row) for row in zip(*columns, strict=True)]


def _cell(value: object, decimals: int | None) -> str:
    if isinstance(value, str):
        return _plain(value)
    if value is None or value is pd.NA or value is pd.NaT:
        return MISSING
    if isinstance(value, bool) or not isinstance(value, Real):
        return _plain(str(value))
    if isinstance(value, Integral):
        return str(int(value))
    return fixed(float(value), decimals) if decimals is not None else MISSING if pd.isna(value) else f"{float(value):.4g}"


def _plain(text: str) -> str:
    """One line: a table's cell cannot hold more."""
    return " ".join(text.split())


def _right(body: list[list[str]], columns: int) -> list[bool]:
    """Which columns hold amounts only."""
    return [bool(body) and all(AMOUNT.fullmatch(row[i]) or not row[i] for row in body) for i in range(columns)]


def _markdown(text: str) -> str:
    return MARKDOWN.sub(lambda sign: "\\" + sign.group(), text)


def _latex(text: str) -> str:
    if AMOUNT.fullmatch(text):
        text = re.sub(r"(?<!\S)-(?=\d)", "−", text)
    # Two hyphens side by side would become a dash, two apostrophes a quotation mark.
    return "".join(c + "{}" if c in "-'" and c == after else LATEX.get(c, c) for c, after in pairwise(text + " "))
