"""``residual-audio report``"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from .checks import check_adapter, check_folder, check_run, check_template, check_words, writable
from .options import RunArgument

LARGE = 15e6  # bytes; a page beyond this opens slowly and cannot be mailed


def report(
    run: RunArgument,
    compare: Annotated[
        list[str] | None,
        typer.Option(help="A folder of `residual-audio compare`, or another run of the same model; may be given several times."),
    ] = None,
    adapter: Annotated[str | None, typer.Option(help="A directory that `residual-audio adapt` wrote: its gains become sliders.")] = None,
    audio: Annotated[
        Literal["embed", "link", "none"], typer.Option(help="embed (excerpts inside the page), link (to the files where they lie) or none.")
    ] = "embed",
    clips: Annotated[int, typer.Option(min=4, help="Clips that the page shows and plays, spread over the classes.")] = 120,
    dictionary: Annotated[
        list[str] | None, typer.Option(help="Words for Ask, as for `residual-audio describe`; may be given several times.")
    ] = None,
    words: Annotated[
        int | None, typer.Option(min=0, help="At most so many words of the dictionary; 0: classes only; default: 300.")
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(help="Prompts of the classes: a named set or a text with {}; default: sound-of, or “a photo of a {}” for images."),
    ] = None,
    model: Annotated[
        bool, typer.Option("--model/--no-model", help="Open the model for Equaliser and Ask, and run the page's clips through it.")
    ] = True,
    out: Annotated[Path | None, typer.Option(help="The file; default: report.html in the run.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps, …")] = "cpu",
) -> None:
    """Write one page to look at and listen to: heads, components with their clips, an equaliser, questions, classes.

    The file holds everything (figures, sounds, the plotting library): it opens from disk, without a server or a network. What a run lacks
    is named on the page with the command that makes it. The address of the page keeps what is chosen, so that a view can be shared.

    ```
    residual-audio extract tiny notes --granularity head,moments,direct --out runs/notes
    residual-audio analyze runs/notes
    residual-audio adapt tiny notes --units "S3 heads" --rate 0.1 --out adapters/notes
    residual-audio compare tiny notes --units "S3 heads" --rate 0.1 --out runs/compare-notes
    residual-audio report runs/notes --compare runs/compare-notes --adapter adapters/notes
    ```
    """
    from ..lazy import need

    need("report", "plotly")  # before anything heavy is loaded
    check_run(run)
    check_adapter(adapter)
    check_template(template)
    check_words(dictionary)
    for other in compare or ():
        check_folder(other, "--compare")
    writable(out if out is None else out.parent)
    from ..extraction import Run
    from ..report import report as write_report
    from .screen import errors, quiet_libraries, say

    quiet_libraries()
    opened = Run.open(run)
    path = write_report(
        opened, out, compare=compare or (), adapter=adapter, audio=audio, clips=clips, dictionary=dictionary, words=words,
        template=template, model=model, device=device,
        tell=lambda line: errors.print(line, soft_wrap=True),
    )  # fmt: skip
    size = path.stat().st_size
    if size > LARGE:
        errors.print(f"{size / 1e6:.1f} MB is large for a page; fewer --clips or --words, or --audio link, make it smaller")
    say(f"{path} ({size / 1e6:.1f} MB): open it in a browser")
