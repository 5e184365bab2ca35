"""``residual-audio demo``"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Data, Machine, open_model

if TYPE_CHECKING:
    from ..models import Encoder

# The classes it was trained on, in new takes; and the two tasks that it was not.
TASKS = ("synthetic", "synthetic-timbre", "synthetic-voice")
LOOKED_INTO = "synthetic-timbre"
# Every head through the rest of the network costs: a few clips show the picture, and the intervals say how sure it is.
ABLATED = {"blocks": 96, "heads": 24}
RECIPE: dict[str, Any] = {"units": "S3 heads", "rate": 0.1, "epochs": 20}
SHOWN = 96  # clips on the page


def demo(
    limit: Annotated[int | None, typer.Option(min=1, help="Use at most so many clips, spread over the classes.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for everything that is made; default: only the first table is shown.")] = None,
) -> None:
    """Classify synthesised sounds with the embedded model, look inside it, retune it, fold it, show it: no download, a few minutes.

    With `--out`, everything is kept: tables, figures, the run that they were made from, the adapter, the folded checkpoint, and a page.

    ```
    residual-audio demo --out runs/demo
    ```
    """
    from .screen import console

    encoder = open_model("tiny", Machine())
    heads, blocks = len(encoder.units.where("head")), len(encoder.units.blocks)
    console.print(f"[bold]tiny[/]: {heads} heads in {blocks} blocks, preprocessing {encoder.policy.hash}", highlight=False)
    classify(encoder, limit, out)
    if out is not None:
        look_inside(encoder, limit, out)
        retune(limit, out)
        keep(limit, out)
        show(out)


def classify(encoder: Encoder, limit: int | None, out: Path | None) -> None:
    """Zero-shot accuracy on the three synthetic tasks."""
    from rich.table import Column, Table

    from ..evaluation import zero_shot
    from .screen import console, progress

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
        data = Data(limit=limit).open(name)
        with progress(name, len(data)) as advance:
            result = zero_shot(encoder, data, advance=advance)
        summary = list(result.summary().values())
        table.add_row(
            name, str(len(result.dataset)), str(len(data.labels)), f"{100 / len(data.labels):.1f}",
            summary[0].percent(), f"{100 * summary[1].value:.1f}",
        )  # fmt: skip
        if out is not None:
            result.write(out / name)
    console.print(table)


def look_inside(encoder: Encoder, limit: int | None, out: Path) -> None:
    """Extract every head, ablate blocks and heads, analyse; the figures end up beside the run."""
    from ..extraction import extract
    from .ablate import ablate
    from .analyze import analyze
    from .screen import console, progress

    data = Data(limit=limit).open(LOOKED_INTO)
    folder = out / "run"
    with progress(f"extracting {data.name}", len(data)) as advance:
        extract(encoder, data, folder, ("head", "moments", "direct"), advance=advance)
    for units, clips in ABLATED.items():
        ablate("tiny", LOOKED_INTO, units=units, limit=limit, clips=min(clips, max(12, limit // 6) if limit else clips), out=folder)
    start = time.perf_counter()
    analyze([str(folder)])
    console.print(f"the analysis took {time.perf_counter() - start:.0f} s", highlight=False)


def retune(limit: int | None, out: Path) -> None:
    """ResiDual on the heads of the last stage against the model as it is and a linear probe, cross-validated."""
    from .compare import compare

    compare("tiny", LOOKED_INTO, out=out / "compare", methods="plain,residual,probe", limit=limit, **RECIPE)


def keep(limit: int | None, out: Path) -> None:
    """Gains for good: an adapter, and the checkpoint that it folds into. What they are worth on unseen clips, `retune` has shown."""
    import shutil

    from .adapt import adapt, fold

    adapt("tiny", LOOKED_INTO, out=out / "adapter", limit=limit, **RECIPE)
    shutil.rmtree(out / "folded", ignore_errors=True)
    fold("tiny", str(out / "adapter"), out=out / "folded")


def show(out: Path) -> None:
    """Where everything is, and last the page."""
    from .report import report
    from .screen import console

    places = {"run": "what every head wrote, its tables and figures", "compare": "the methods, fold by fold", "adapter": "the gains",
              "folded": "an ordinary checkpoint"}  # fmt: skip
    for name, what in places.items():
        console.print(f"{out / name}: {what}", highlight=False, soft_wrap=True)
    report(str(out / "run"), compare=[str(out / "compare")], adapter=str(out / "adapter"), clips=SHOWN)
