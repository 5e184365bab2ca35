"""What every verb shows alike: progress, tables, errors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

console = Console()
errors = Console(stderr=True)


class Rate(ProgressColumn):
    """Clips a second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f}/s" if task.speed else "–/s", style="progress.data.speed")


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], object]]:
    """A bar with rate and time left, on a terminal only; yields ``advance(n)``."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task(title, total=total)
        yield lambda n: bar.advance(task, n)


def known_errors() -> tuple[type[Exception], ...]:
    """The errors that users can do something about. Looked up when one is raised: `--help` should not wait for torch."""
    from ..adaptation import AdapterError, FoldError, SelectionError
    from ..adaptation.baselines.lora import LoraError
    from ..analysis import AnalysisError
    from ..data import DataError
    from ..evaluation import EvaluationError
    from ..extraction import ExtractionError, StoreError
    from ..media import MediaError
    from ..models import EncoderError

    return (AdapterError, AnalysisError, MediaError, DataError, EncoderError, EvaluationError, ExtractionError, FoldError, LoraError,
            SelectionError, StoreError)  # fmt: skip


@contextmanager
def fail_clearly() -> Iterator[None]:
    """Turn the errors that users can do something about into one line; anything else is a bug and keeps its trace."""
    try:
        yield
    except KeyboardInterrupt:
        errors.print("stopped")
        sys.exit(130)
    except Exception as error:
        if not isinstance(error, known_errors()):
            raise
        errors.print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)
