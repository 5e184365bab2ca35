"""The command line: one small module per verb. Only this room knows about screens."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from . import (
    ablate,
    adapt,
    analyze,
    ask,
    check,
    compare,
    convert,
    datasets,
    demo,
    describe,
    explain,
    export,
    extract,
    few_shot,
    hub,
    models,
    report,
    reproduce,
    retrieve,
    search,
    serve,
    steer,
    sweep,
    truncate,
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
# What people come for, in the order in which they do it.
VERBS: dict[str, dict[str, Callable[..., None]]] = {
    "Look": {
        "models": models.models,
        "datasets": datasets.datasets,
        "extract": extract.extract,
        "check": check.check,
        "analyze": analyze.analyze,
        "ablate": ablate.ablate,
        "describe": describe.describe,
        "ask": ask.ask,
        "explain": explain.explain,
    },
    "Change": {
        "adapt": adapt.adapt,
        "steer": steer.steer,
        "fold": adapt.fold,
        "convert": convert.convert,
        "export": export.export,
    },
    "Judge": {
        "zero-shot": zero_shot.zero_shot,
        "retrieve": retrieve.retrieve,
        "compare": compare.compare,
        "few-shot": few_shot.few_shot,
        "search": search.search,
        "sweep": sweep.sweep,
        "truncate": truncate.truncate,
        "reproduce": reproduce.reproduce,
    },
    "Show": {"report": report.report, "serve": serve.serve, "demo": demo.demo},
    "Share": {"push": hub.push, "pull": hub.pull},
}
for panel, verbs in VERBS.items():
    for name, verb in verbs.items():
        app.command(name, cls=getattr(verb, "command_class", None), rich_help_panel=panel)(verb)


def print_version(wanted: bool) -> bool:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"residual-audio {version('residual-audio')}")
        raise typer.Exit
    return wanted


@app.callback()
def before_any_verb(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", callback=print_version, is_eager=True)] = False,
) -> None:
    pass


def main() -> None:
    """Run the command; known errors, and words that an option does not take, become one clear line and exit status 2."""
    from .screen import fail_clearly

    with fail_clearly():
        # Typer tells of wrong words in a box of several lines, unless they are left to us.
        sys.exit(app(prog_name="residual-audio", standalone_mode=False) or 0)
