"""``residual-audio models``"""

from __future__ import annotations

from typing import Annotated

import typer

from ..models.loading import Loading
from .options import Machine, open_model, takes


@takes(machine=Machine, loading=Loading)
def models(
    machine: Machine,
    loading: Loading,
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="Draw this model's layout; `htsat`: full-size HTS-AT, without weights.")
    ] = None,
) -> None:
    """List the known models and what each needs; with MODEL, draw how it is built: grids, windows, widths and every unit.

    Any name, hub repository or path in the first column can stand where a command asks for MODEL:

    ```
    residual-audio zero-shot tiny synthetic
    residual-audio models tiny
    residual-audio models htsat
    ```
    """
    from .screen import console

    if model is not None:
        from ..models.layout import HTSAT, full_size, layout_lines

        for line in layout_lines(full_size() if model == HTSAT else open_model(model, machine, loading)):
            console.print(line, soft_wrap=True, highlight=False, markup=False)
        return
    from rich.table import Column, Table

    from ..models import known_models

    table = Table(Column("name", no_wrap=True), "what it is", "what it needs", title="Models")
    for known in known_models():
        table.add_row(known.name, known.what, known.needs)
    console.print(table)
    console.print("Offline, a hub model is found in its cache (HF_HOME) or by the path of a directory.")
