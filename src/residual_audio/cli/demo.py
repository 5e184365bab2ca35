"""``residual-audio demo``"""

from __future__ import annotations

import typer

from .options import Limit, Out, open_dataset, open_model

# The classes it was trained on, in new takes; and the two tasks that it was not.
TASKS = ("synthetic", "synthetic-timbre", "synthetic-voice")


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(limit: Limit = None, out: Out = None) -> None:
    """Classify synthesised sounds with the embedded model: no download, a minute or so.

    ```
    residual-audio demo
    ```
    """
    from rich.table import Column, Table

    from ..evaluation import zero_shot
    from .output import write_zero_shot
    from .screen import console, progress

    encoder = open_model("tiny", "cpu")
    heads, blocks = len(encoder.units.where("head")), len(encoder.units.blocks)
    console.print(f"[bold]tiny[/]: {heads} heads in {blocks} blocks, preprocessing {encoder.policy.hash}", highlight=False)
    table = Table(
        Column("data", no_wrap=True),
        "clips",
        "classes",
        "chance",
        Column("top-1 % [95 %]", no_wrap=True),
        "top-5",
        title="Zero-shot classification by tiny",
    )
    for name in TASKS:
        data = open_dataset(name, None, False, limit)
        with progress(name, len(data)) as advance:
            result = zero_shot(encoder, data, advance=advance)
        summary = list(result.summary().values())
        table.add_row(
            name, str(len(result.dataset)), str(len(data.labels)), f"{100 / len(data.labels):.1f}",
            summary[0].percent(), f"{100 * summary[1].value:.1f}",
        )  # fmt: skip
        if out is not None:
            write_zero_shot(out / name, encoder, data, result, {"limit": limit, "template": "sound-of", "seed": result.seed})
    console.print(table)
    if out is not None:
        console.print(f"tables and records: {out}")
