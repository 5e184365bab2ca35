"""The command line: one small module per verb. Only this room knows about files of settings and screens."""

from __future__ import annotations

import typer

from . import (
    ablate,
    adapt,
    analyze,
    ask,
    compare,
    datasets,
    demo,
    describe,
    extract,
    few_shot,
    models,
    report,
    reproduce,
    retrieve,
    search,
    zero_shot,
)

app = typer.Typer(
    name="residual-audio",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="Look inside audio–text transformers and retune them, head by head.\n\n"
    "Start with `residual-audio demo`, which needs no download; then `residual-audio models` and `residual-audio datasets`.",
)
for module in (
    models,
    datasets,
    zero_shot,
    retrieve,
    extract,
    analyze,
    ablate,
    describe,
    ask,
    adapt,
    compare,
    few_shot,
    search,
    report,
    reproduce,
    demo,
):
    module.register(app)


def main() -> None:
    """Run the command; known errors become one clear line and exit status 2."""
    from .screen import fail_clearly

    with fail_clearly():
        app()
