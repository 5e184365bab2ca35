"""Class prompts are data: named sets of templates, one or several per set; several are averaged as embeddings."""

from __future__ import annotations

from collections.abc import Sequence

from .clip import DataError

DEFAULT_TEMPLATE = "sound-of"
TEMPLATES: dict[str, tuple[str, ...]] = {
    "sound-of": ("this is the sound of {}",),
    "laion": ("This is a sound of {}.",),
    "msclap": ("this is the sound of {}",),
    "plain": ("{}",),
    "instrument": ("this is the sound of the instrument {}", "a recording of {}", "a note played on {}"),
    "ensemble": (
        "this is the sound of {}",
        "This is a sound of {}.",
        "a recording of {}",
        "the sound of {}",
        "{}",
        "you can hear {}",
        "audio of {}",
    ),
}


def templates(name: str) -> tuple[str, ...]:
    """A set by name, or a template of the user's own: any text with ``{}`` in it."""
    if name in TEMPLATES:
        return TEMPLATES[name]
    if "{}" in name:
        return (name,)
    raise DataError(f"unknown template set {name!r}; one of {', '.join(TEMPLATES)}, or a text with {{}} in it")


def fill(template_set: Sequence[str], names: Sequence[str]) -> list[list[str]]:
    """``[class][template]`` prompts."""
    return [[template.format(name) for template in template_set] for name in names]
