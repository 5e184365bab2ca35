"""The page of a run, from its folder alone: its tables, its clips, and what its own model says about them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from ...adaptation.adapter import load_adapter
from ...extraction import Run, StoreError
from ...lazy import need
from ...media import MediaError
from ...models import EncoderError
from ...options import OptionError
from ...progress import progress
from ...results import circumstances
from .clips import media_of
from .model import gains_by_head, model_part
from .page import AUDIO, PageError, write_page

WORDS = 300  # of the dictionary, where no number is given
TEMPLATES = {"sound": "sound-of", "image": "a photo of a {}"}


def report(
    run: Run | str | Path,
    out: str | Path | None = None,
    *,
    compare: Sequence[str | Path] = (),
    adapter: str | Path | None = None,
    audio: str = "embed",
    clips: int = 120,
    dictionary: Sequence[str] | None = None,
    words: int | None = None,
    template: str | None = None,
    model: bool = True,
    device: str = "cpu",
    advance: Callable[[int], object] | None = None,
    tell: Callable[[str], object] | None = None,
) -> Path:
    """Write one page of a run to look at and listen to, and return its path (default: ``report.html`` in the run).

    The file holds everything: it opens from disk, without a server or a network. What a run lacks is named on the page.

    - ``compare``: folders of `residual-audio compare`, or other runs of the same model;
    - ``adapter``: a directory that `residual-audio adapt` wrote: its gains become sliders;
    - ``audio``: ``embed`` excerpts, ``link`` to the files where they lie, or ``none``; images always get a thumbnail;
    - ``clips``: how many the page shows, spread over the classes; ``dictionary`` and ``words``: what can be asked for beside classes (300);
    - ``template``: the prompts of classes (default: "this is the sound of …", or "a photo of a …" for images);
    - ``model``: open the run's model on ``device`` for the Equaliser and Ask; without it the page has neither.

    ``advance(n)`` is told of finished clips: each once for the page, and once more if a model is opened. ``tell(line)`` is told what the
    page has to do without (default: a warning).
    """
    need("report", "plotly")
    opened = run if isinstance(run, Run) else Run.open(run)
    if audio not in AUDIO:
        raise PageError(f"audio is {audio!r}; one of {', '.join(AUDIO)}")
    if not model and adapter is None:
        given = {"--dictionary": dictionary, "--words": words, "--template": template, "--device": None if device == "cpu" else device}
        if unread := [flag for flag, value in given.items() if value is not None]:
            raise OptionError(f"{', '.join(unread)}: read by the model's part of the page, which --no-model leaves out")
    folder = opened.store.local
    if out is None and folder is None:
        raise StoreError(f"{opened.store.address} is remote; say where the page goes (--out)")
    path = Path(out) if out is not None else Path(str(folder)) / "report.html"
    steps = (2 if model or adapter is not None else 1) * min(clips, len(opened.clips))
    with progress("clips of the page", steps, advance) as advance:
        part, residual, lacks = None, None, []
        if model or adapter is not None:
            try:
                encoder = opened.open_encoder(device)
                residual = None if adapter is None else load_adapter(str(adapter), encoder)
                chosen = template or TEMPLATES[media_of(opened)]
                part = model_part(opened, encoder, residual, clips, dictionary, WORDS if words is None else words, chosen, advance)
            except (EncoderError, MediaError) as error:
                if adapter is not None:
                    raise
                lacks.append(f"The page has no Equaliser and no Ask: {error}")
        for line in lacks:
            tell(line) if tell is not None else warnings.warn(line, stacklevel=2)
        return write_page(
            opened, path, compare=compare, part=part, gains=gains_by_head(residual), audio=audio, clips=clips, notes=lacks,
            command=circumstances()["command"], advance=advance,
        )  # fmt: skip
