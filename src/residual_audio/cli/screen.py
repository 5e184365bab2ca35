"""What every verb shows alike: progress, tables, errors."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

console = Console()
errors = Console(stderr=True)
SHOWN = 5  # unreadable clips that are named


class Rate(ProgressColumn):
    """Clips per second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f}/s" if task.speed else "–/s", style="progress.data.speed")


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], object]]:
    """A bar with rate and time left, on a terminal only; yields ``advance(n)``."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task(title, total=total)
        yield lambda n: bar.advance(task, n)


def screen_table(*columns: str, title: str, caption: str | None = None) -> Table:
    """A table that fits 80 columns: the first column is text, the others are numbers, none is broken over lines."""
    heads = [Column(name, no_wrap=True, justify="left" if i == 0 else "right") for i, name in enumerate(columns)]
    return Table(*heads, title=escape(title), caption=caption, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)


def p_text(p: float) -> str:
    """Three digits; a dash where there is none."""
    return "–" if p != p else "<0.001" if p < 0.001 else f"{p:.3f}"


def tell(line: str) -> None:
    """A line about work under way, on a terminal only."""
    if errors.is_terminal:
        errors.print(line, highlight=False)


def say(text: str) -> None:
    """A plain line of the result."""
    console.print(text, highlight=False, soft_wrap=True)


def unreadable(clips: Mapping[str, str], total: int) -> None:
    """Name the first clips that could not be read, if there are any."""
    if clips:
        first = "\n".join(f"  {message}" for message in list(clips.values())[:SHOWN])
        line = f"{len(clips)} of {total} clips could not be read and were left out:\n{first}"
        errors.print(line, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def warnings_told() -> Iterator[None]:
    """Our warnings about data, as lines for people."""
    from ..data import DataWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, DataWarning):
            errors.print(f"[yellow]warning:[/] {escape(str(warning.message))}", highlight=False, soft_wrap=True)
        else:
            warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)


def quiet_libraries() -> None:
    """No bars and no remarks of transformers' own."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


# The errors that users can do something about, by the module that defines them.
KNOWN_ERRORS = {
    "adaptation.adapter": "AdapterError",
    "adaptation.methods.lora": "LoraError",
    "analysis.errors": "AnalysisError",
    "data.clip": "DataError",
    "evaluation.errors": "EvaluationError",
    "extraction.shard": "ExtractionError",
    "extraction.store": "StoreError",
    "media": "MediaError",
    "models.encoder": "EncoderError",
    "models.folding": "FoldError",
    "options": "OptionError",
    "units": "SelectionError",
}


def is_known(error: Exception) -> bool:
    """Whether users can do something about an error. Nothing is imported to find out: what raised it is there already."""
    package = __package__.partition(".")[0]
    modules = {name: sys.modules.get(f"{package}.{name}") for name in KNOWN_ERRORS}
    return isinstance(error, tuple(getattr(module, KNOWN_ERRORS[name]) for name, module in modules.items() if module is not None))


@contextmanager
def fail_clearly() -> Iterator[None]:
    """Turn the errors that users can do something about into one line; anything else is a bug and keeps its trace."""
    try:
        yield
    except KeyboardInterrupt:
        errors.print("stopped")
        sys.exit(130)
    except Exception as error:
        if not is_known(error):
            raise
        errors.print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)
