"""``residual-audio datasets``"""

from __future__ import annotations


def datasets() -> None:
    """List the datasets that can be named, and how to point at your own.

    ```
    residual-audio zero-shot tiny notes
    residual-audio zero-shot tiny esc50 --data-root ~/data/ESC-50
    residual-audio zero-shot tiny folder:my-sounds
    ```
    """
    from rich.table import Column, Table

    from ..data import DATASETS, Shipped
    from .screen import console

    table = Table(Column("name", no_wrap=True), "what it is", title="Datasets")
    for source in DATASETS.values():
        owner = f" ({source.licence}: {source.credit})" if isinstance(source, Shipped) else ""
        table.add_row(source.shown, source.help + owner)
    console.print(table)
