"""What every verb shows alike: tables, lines, errors. How far the work is, whoever does it shows (:mod:`..progress`)."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Column, Table
from rich.text import Text

from ..progress import EVERY, Screen, errors, told_in_lines

if TYPE_CHECKING:
    from ..data import Dataset


console = Screen()
SHOWN = 5  # unreadable clips that are named
STOPPED = (128 + signal.SIGINT, 128 + signal.SIGTERM)


def screen_table(*columns: str, title: str, caption: str | None = None) -> Table:
    """A table that fits 80 columns: the first column is text, the others are numbers, none is broken over lines."""
    heads = [Column(name, no_wrap=True, justify="left" if i == 0 else "right") for i, name in enumerate(columns)]
    return Table(*heads, title=title, caption=caption, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)


def p_text(p: float) -> str:
    """Three digits; a dash where there is none."""
    return "–" if p != p else "<0.001" if p < 0.001 else f"{p:.3f}"


def tell(line: str) -> None:
    """A line about work under way; where there is no terminal, one every half minute."""
    now = time.monotonic()
    if errors.is_terminal or now - _told[0] >= EVERY:
        _told[0] = now
        errors.print(line)


_told = [time.monotonic()]


def say(text: str) -> None:
    """A plain line of the result; brackets in it are brackets, whatever rich would read in them."""
    console.print(text, soft_wrap=True)


def unreadable(clips: Mapping[str, str], asked: Dataset, where: Path | str | None = None, kept: Mapping[str, Any] | None = None) -> None:
    """Name the first clips that could not be read, and the classes that were left out with them, if there are any.

    ``where``: the file that names all of them, None where nothing is written. ``kept``: the same of ``--keep-clips``, as records have it.
    """
    if kept and kept["errors"]:
        errors.print("\n".join(named(kept["errors"], f"{kept['clips']} clips of --keep-clips {kept['dataset']}", where)), soft_wrap=True)
    if not clips:
        return
    lines = named(clips, f"{len(asked)} clips", where)
    left = set(asked.without(clips).labels)
    if gone := [label for label in asked.labels if label not in left]:
        more = f" and {len(gone) - SHOWN} more" if len(gone) > SHOWN else ""
        lines.append(f"classes left out, because none of their clips could be read: {', '.join(gone[:SHOWN])}{more}")
    errors.print("\n".join(lines), soft_wrap=True)


def named(clips: Mapping[str, str], of: str, where: Path | str | None) -> list[str]:
    """Lines that count unreadable clips, name the first, and say who names the others."""
    lines = [f"{len(clips)} of {of} could not be read and were left out:"]
    lines += [f"  {message}" for message in list(clips.values())[:SHOWN]]
    if len(clips) > SHOWN:
        lines.append(f"  and {len(clips) - SHOWN} more; {f'{where} names all' if where else 'with --out, a file names all'}")
    return lines


@contextmanager
def warnings_told() -> Iterator[None]:
    """Our warnings about data, as lines for people."""
    from ..data import DataWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, DataWarning):
            errors.print(Text("warning:", "yellow"), str(warning.message), soft_wrap=True)
        else:
            warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)


def quiet_libraries() -> None:
    """No bars and no remarks of transformers' own."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


# The errors that users can do something about, by the module that defines them.
KNOWN_ERRORS = {
    "adaptation.hub": "HubError",
    "adaptation.validate": "AdapterError",
    "adaptation.methods.lora": "LoraError",
    "analysis.errors": "AnalysisError",
    "data.clip": "DataError",
    "evaluation.errors": "EvaluationError",
    "extraction.shard": "ExtractionError",
    "extraction.store": "StoreError",
    "lazy": "MissingExtra",
    "media": "MediaError",
    "models.encoder": "EncoderError",
    "models.folding": "FoldError",
    "options": "OptionError",
    "serve.problems": "ServeError",
    "units": "SelectionError",
    "writing": "LinkError",
}


def is_known(error: Exception) -> bool:
    """Whether users can do something about an error. Nothing is imported to find out: what raised it is there already."""
    package = __package__.partition(".")[0]
    modules = {name: sys.modules.get(f"{package}.{name}") for name in KNOWN_ERRORS}
    return isinstance(error, tuple(getattr(module, KNOWN_ERRORS[name]) for name, module in modules.items() if module is not None))


def is_full(error: Exception) -> bool:
    """Whether a disk is full, whoever found out: safetensors keeps the system's words only."""
    return any(os.strerror(number) in str(error) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


def wrong_words(error: Exception) -> str | None:
    """What Typer has to say of a command line, in one line; nothing where it has shown the help; None for any other error.

    It brings Click along under names of its own, so its errors are known by what they can do.
    """
    if not hasattr(error, "format_message") or not hasattr(error, "exit_code"):
        return None
    said = " ".join(error.format_message().replace("Value error, ", "").split()).removesuffix(".")
    context = getattr(error, "ctx", None)
    verb = context.command_path if context is not None else "residual-audio"
    return said and f"{said[0].lower()}{said[1:]}{' See' if said.endswith('?') else '; see'} `{verb} --help`"


@contextmanager
def fail_clearly() -> Iterator[None]:
    """Turn the errors that users can do something about into one line; anything else is a bug and keeps its trace.

    Being asked to end (SIGTERM) is an exit like others, so that whatever is half-written is cleared away. Ctrl-C arrives as one too:
    Typer makes a silent exit of it.
    """
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        with told_in_lines():
            yield
    except (KeyboardInterrupt, SystemExit) as ended:
        if isinstance(ended, SystemExit) and ended.code not in STOPPED:
            raise
        errors.print("stopped; finished parts stay, and the same command resumes from there")
        sys.exit(130 if isinstance(ended, KeyboardInterrupt) else ended.code)
    except Exception as error:
        words = wrong_words(error)
        if words is None and not is_known(error) and not is_full(error):
            raise
        advice = "; make room, and the same command resumes" if is_full(error) else ""
        if words != "":
            errors.print(Text("error:", "bold red"), words or f"{error}{advice}", soft_wrap=True)
        sys.exit(2)
