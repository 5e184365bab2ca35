"""Figures of verbs that write tables: drawn where matplotlib is installed; results never wait for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..lazy import MissingExtra
from .screen import say


def draw(*args: Any, **options: Any) -> list[Path]:
    """As :func:`residual_audio.draw`; without matplotlib no figure, and a line that names the extra."""
    try:
        from ..report.figures import draw as draw_figures
    except MissingExtra as error:
        say(f"no figures: {error}")
        return []
    return draw_figures(*args, **options)
