"""``residual-audio datasets``"""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    app.command("datasets")(datasets)


def datasets() -> None:
    """List the datasets that can be named, and how to point at your own.

    ```
    residual-audio zero-shot tiny esc50 --data-root ~/data/ESC-50
    residual-audio zero-shot tiny folder:my-sounds
    ```
    """
    from rich.table import Column, Table

    from ..data import KNOWN
    from .screen import console

    table = Table(Column("name", no_wrap=True), "what it is", title="Datasets")
    for name, what in KNOWN.items():
        table.add_row(name, what)
    console.print(table)
