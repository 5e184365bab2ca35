"""``residual-audio check``"""

from __future__ import annotations

import typer

from .checks import check_run
from .options import RunArgument


def check(run: RunArgument) -> None:
    """Read every byte of a run and compare it with what was written: files that are missing, damaged, swapped or replaced are named.

    Exits with status 1 if there are any. The `residual-audio extract` command that made the run makes exactly those again.

    ```
    residual-audio check runs/timbre
    ```
    """
    check_run(run)
    from ..extraction import Run
    from .screen import say

    opened = Run.open(run)
    problems = opened.problems()
    for problem in problems:
        say(problem)
    if problems:
        raise typer.Exit(1)
    say(f"{run}: {len(opened.info['digests'])} files are as they were written")
