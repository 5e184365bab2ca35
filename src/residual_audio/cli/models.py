"""``residual-audio models``"""

from __future__ import annotations


def models() -> None:
    """List the known models and what each needs.

    Any name, hub repository or path in the first column can stand where a command asks for MODEL:

    ```
    residual-audio zero-shot tiny synthetic
    ```
    """
    from rich.table import Column, Table

    from ..models import known_models
    from .screen import console

    table = Table(Column("name", no_wrap=True), "what it is", "what it needs", title="Models")
    for model in known_models():
        table.add_row(model.name, model.what, model.needs)
    console.print(table)
    console.print("Offline, a hub model is found in its cache (HF_HOME) or by the path of a directory.")
