"""Help that reads a registry: made when it is shown, since registries bring torch and no other verb's help should wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

# Their help is that of `classifier_help` and `template_help`.
ClassifierName = Annotated[str, typer.Option("--classifier", help="How embeddings become class scores.")]
Template = Annotated[str | None, typer.Option("--template", help="The prompts of a class.")]


def late_help(more: Callable[[], str] | None, **texts: Callable[[], str]) -> type[TyperCommand]:
    """A command class; ``texts[option]()`` is the help of that option, ``more()`` stands at the end of the verb's own."""

    class Command(TyperCommand):
        def format_help(self, ctx: Any, formatter: Any) -> None:
            options: list[Any] = list(self.params)
            for option in options:
                if option.name in texts:
                    option.help = texts[option.name]()
            plain = self.help
            self.help = f"{plain}\n\n{more()}" if more is not None else plain
            super().format_help(ctx, formatter)
            self.help = plain

    return Command


def helped(more: Callable[[], str] | None = None, **texts: Callable[[], str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Mark a verb whose help, or that of its options, is made late."""

    def mark(verb: Callable[..., None]) -> Callable[..., None]:
        verb.command_class = late_help(more, **texts)  # type: ignore[attr-defined]
        return verb

    return mark


def classifier_help() -> str:
    """What `--classifier` takes."""
    from ..evaluation import CLASSIFIERS
    from ..evaluation.classifier import AUTO

    known = "; ".join(f"{c.name} ({c.help})" for c in CLASSIFIERS.values())
    return f"{known}; auto: {AUTO[0]} where there is a text side, else {AUTO[1]}."


def classifiers_help() -> str:
    """The same, where several can be given."""
    return f"How test clips are classified; several by commas, the first for every method's own line. {classifier_help()}"


def template_help() -> str:
    """What `--template` takes, and who reads it."""
    from ..data.prompts import DEFAULT_TEMPLATE, TEMPLATES
    from ..evaluation import CLASSIFIERS

    readers = ", ".join(c.name for c in CLASSIFIERS.values() if c.texts != "none")
    return (
        f"A set of prompts ({', '.join(TEMPLATES)}) or your own text with {{}}, for the classifiers {readers}; default: {DEFAULT_TEMPLATE}."
    )


def measures_help() -> str:
    """Every measure with its one line."""
    from ..analysis import MEASURES

    own = [f"- `{m.name}`: {m.help}" for m in MEASURES.values() if m.of != "tables"]
    others = [f"- `{m.name}` (of `{m.table}`): {m.help}" for m in MEASURES.values() if m.of == "tables"]
    between = "Figures and the page also show what other commands measure:"
    return "\n".join(["Measures, one column each:", "", *own, "", between, "", *others])
