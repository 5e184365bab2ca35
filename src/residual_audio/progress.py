"""How far long work is: a bar with rate and time left in a terminal or a notebook, and nothing where nobody looks.

Whoever loops opens a step; a step inside another stands below it, and all that are open share one display. The command line has lines
instead where there is no terminal (:func:`told_in_lines`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from .spelling import printable

Advance = Callable[[int], object]
EVERY = 30  # seconds between lines where there is no terminal
NOTEBOOK_SECONDS = 1  # between two lines of a notebook's cell


class Screen(Console):
    """Text is text: nothing that others wrote is read as markup or as an emoji, and control characters are shown, not sent."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str("\n".join(map(printable, text.split("\n"))), **options)


errors = Screen(stderr=True)  # bars and lines share it: a line that goes round it would break a bar


class Step:
    """One loop: call it with how much was done. ``total`` may become known later; ``began_with`` was there before and says no rate."""

    def __init__(self, title: str, total: int | None, began_with: int, display: Display) -> None:
        self.title, self.total, self.began_with, self.done = title, total, began_with, began_with
        self.began, self.display = time.monotonic(), display

    def __call__(self, n: int = 1) -> None:
        self.done += n
        self.display.moved(self)

    def text(self) -> str:
        """In words: how far, how fast, and how long it still takes at this rate."""
        waited, new = time.monotonic() - self.began, self.done - self.began_with
        told = f"{self.title}: {self.done} of {'?' if self.total is None else self.total}"
        told += f", {new / waited:.1f}/s" if new > 0 and waited > 0 else ""
        return (
            told if self.total is None or new <= 0 else f"{told}, about {waited / new * max(0, self.total - self.done) / 60:.1f} min left"
        )


class Display:
    """Where steps are shown; this one is for files and pipes, where nobody looks. ``end`` comes when the last step is closed."""

    def opened(self, step: Step) -> None: ...
    def moved(self, step: Step) -> None: ...
    def closed(self, step: Step) -> None: ...
    def end(self) -> None: ...


class Rate(ProgressColumn):
    """Items per second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f}/s" if task.speed else "–/s", style="progress.data.speed")


class Bars(Display):
    """A terminal."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
        self.bars = Progress(*columns, console=errors, transient=True)
        self.tasks: dict[Step, TaskID] = {}
        self.bars.start()

    def opened(self, step: Step) -> None:
        self.tasks[step] = self.bars.add_task(printable(step.title), total=step.total, completed=step.done)

    def moved(self, step: Step) -> None:
        self.bars.update(self.tasks[step], completed=step.done, total=step.total)

    def closed(self, step: Step) -> None:
        self.bars.remove_task(self.tasks.pop(step))

    def end(self) -> None:
        self.bars.stop()


class Told(Display):
    """Text of all open steps, at most once in so many seconds; the outermost comes first."""

    def __init__(self, every: float, say: Callable[[str], object], finish: Callable[[], object] = lambda: None) -> None:
        self.every, self.say, self.finish, self.last = every, say, finish, time.monotonic()
        self.steps: list[Step] = []

    def opened(self, step: Step) -> None:
        self.steps.append(step)

    def closed(self, step: Step) -> None:
        self.steps.remove(step)

    def end(self) -> None:
        self.finish()

    def moved(self, step: Step) -> None:
        now = time.monotonic()
        with _lock:
            if now - self.last < self.every or not self.steps:
                return
            self.last = now
            self.say("; ".join(printable(step.text()) for step in self.steps))


def in_lines() -> Told:
    """A log: a line every half minute."""
    return Told(EVERY, lambda text: errors.print(text, soft_wrap=True))


def in_notebook() -> Told:
    """A notebook's cell: one line below it that is written over, and empty at the end. Needs no widgets."""
    width = 0

    def say(text: str) -> None:
        nonlocal width
        print(f"\r{text.ljust(width)}", end="", file=sys.stderr, flush=True)
        width = len(text)

    return Told(NOTEBOOK_SECONDS, say, lambda: width and print(f"\r{' ' * width}\r", end="", file=sys.stderr, flush=True))


class Shared:
    """The one display, while steps are open, and what there is where nobody looks."""

    display: Display | None = None
    opened = 0
    unseen: Callable[[], Display] = Display


_lock = RLock()


def new_display() -> Display:
    """For where we are."""
    if errors.is_jupyter:
        return in_notebook()
    return Bars() if errors.is_terminal else Shared.unseen()


@contextmanager
def told_in_lines() -> Iterator[None]:
    """Within it, work without a terminal says every half minute how far it is: a command's log should not be silent for hours."""
    before, Shared.unseen = Shared.unseen, in_lines
    try:
        yield
    finally:
        Shared.unseen = before


@contextmanager
def progress(title: str, total: int | None, advance: Advance | None = None, done: int = 0) -> Iterator[Advance]:
    """A step of so many items, of which some are ``done``: yields the function that is told of further ones.

    ``advance``: a caller's own, which is then told instead, and nothing is shown.
    """
    if advance is not None:
        if done:
            advance(done)
        yield advance
        return
    with opened_step(title, total, done) as step:
        yield step


@contextmanager
def opened_step(title: str, total: int | None, done: int = 0) -> Iterator[Step]:
    """The same as an object, whose ``total`` can be set when it becomes known."""
    with _lock:
        Shared.display = Shared.display or new_display()
        Shared.opened += 1
        step = Step(title, total, done, Shared.display)
        step.display.opened(step)
    try:
        yield step
    finally:
        with _lock:
            step.display.closed(step)
            Shared.opened -= 1
            if not Shared.opened:
                Shared.display = None
                step.display.end()
