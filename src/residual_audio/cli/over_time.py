"""``residual-audio zero-shot --over-time``"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..models.loading import Loading
from ..options import OptionError, Options, option
from .options import Machine, open_model

if TYPE_CHECKING:
    from ..evaluation.over_time import OverTime

SHOWN = 20  # stretches on the screen; the table has all


@dataclass(frozen=True)
class Listening(Options):
    """How a long recording is gone through."""

    window: float | None = option(None, "With --over-time: seconds of a window; default and at most: what the model hears at once.")
    hop: float | None = option(None, "With --over-time: seconds from the start of one window to the next; default: half a window.")
    threshold: float | None = option(None, "With --over-time: mean probability from which on a text counts as heard; default: 0.5.")

    @property
    def given(self) -> dict[str, float]:
        return {name: value for name, value in vars(self).items() if value is not None}


def check_unread(over_time: bool, readers: dict[str, object]) -> None:
    """Refuse options that the other kind of listening reads; ``readers``: what was given, by flag."""
    if given := [flag for flag, value in readers.items() if value]:
        kind = "a recording over time" if over_time else "a dataset; they are for --over-time"
        raise OptionError(f"{', '.join(given)}: not read for {kind}; leave it out")


def listen(
    model: str,
    recording: str,
    texts: list[str],
    listening: Listening,
    machine: Machine,
    loading: Loading,
    *,
    template: str | None,
    batch_size: int,
    out: Path | None,
) -> None:
    """Go through one recording, show where each text is heard, and write tables, embeddings and the figure."""
    path = Path(recording).expanduser()
    if not path.is_file():
        raise OptionError(f"--over-time goes through one recording; {recording} is no file")
    if len(texts) < 2:
        raise OptionError(
            '--over-time needs two texts or more (--text "a dog barking" --text "background noise"): each is heard against the others'
        )
    from ..evaluation.over_time import over_time
    from .screen import say

    encoder = open_model(model, machine, loading)
    given: dict[str, Any] = listening.given
    result = over_time(encoder, path, texts, **given, template=template, batch_size=batch_size, workers=machine.workers)
    show(result, path.name)
    if out is not None:
        from .figures import draw

        result.write(out)
        figures = draw(result.tables, out / "figures", {"model": result.info["model"], "dataset": path.name}, only=["over_time"])
        say("\n".join([f"written to {out}", *(f"figure: {path}" for path in figures[1:])]))


def show(result: OverTime, name: str) -> None:
    """Where each text is heard."""
    from ..rounding import percent
    from .screen import console, say, screen_table

    heard, info = result.heard(), result.info
    caption = (
        f"{info['windows']} windows over {clock(info['seconds'])}, '{info['settings']['template']}', heard from {result.threshold:g} on"
    )
    table = screen_table(
        "text", "from", "to", "seconds", "probability %", "at", title=f"{info['model']['name']} on {name}", caption=caption
    )
    for row in heard.head(SHOWN).itertuples():
        table.add_row(row.text, clock(row.start), clock(row.end), f"{row.end - row.start:.1f}", percent(row.probability), clock(row.peak))
    console.print(table)
    if len(heard) > SHOWN:
        say(f"and {len(heard) - SHOWN} more: --out keeps all")
    if unheard := [text for text in result.texts if text not in set(heard["text"])]:
        say(f"not heard: {', '.join(unheard)}")


def clock(seconds: float) -> str:
    """``mm:ss.s``, with hours where there are any."""
    minutes, rest = divmod(round(seconds, 1), 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{f'{hours}:' if hours else ''}{minutes:02d}:{rest:04.1f}"
