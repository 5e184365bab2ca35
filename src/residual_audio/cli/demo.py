"""``residual-audio demo``"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..adaptation.recipe import Recipe
from ..rounding import percent
from .checks import writable
from .options import Data, Machine, open_model

if TYPE_CHECKING:
    from rich.table import Table

    from ..data import Dataset
    from ..models import Encoder

LOOKED_INTO = "notes"
CLASSIFIED = (LOOKED_INTO, "synthetic")
# One in so many clips: every head through the rest of the network costs. Few show the picture, and the intervals say how sure it is.
ABLATED = {"blocks": 2, "heads": 8}
METHODS = ("plain", "residual", "plain+probe")
EPOCHS = 20
RECIPE = Recipe(epochs=EPOCHS)  # form and units as `adapt` and `compare` choose them
SHOWN = 100  # clips on the page


@dataclass
class Tour:
    """What the steps share. ``screen``: tables and lines for the last screen."""

    encoder: Encoder
    limit: int | None
    out: Path | None
    screen: list[Table | str] = field(default_factory=list)

    def open(self, name: str = LOOKED_INTO) -> Dataset:
        return Data(limit=self.limit).open(name)

    @property
    def home(self) -> Path:
        """Where everything is kept; every step but the first needs it."""
        assert self.out is not None
        return self.out


def demo(
    limit: Annotated[int | None, typer.Option(min=1, help="Use at most so many clips, spread over the classes.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for everything that is made; default: only the first step is done.")] = None,
) -> None:
    """Classify real notes with the embedded model, look inside it, retune it, fold it, show it: no download, a few minutes.

    The notes come with the package (`notes`, a part of NSynth). Retuning is judged on instruments that were not heard in training. With
    `--out`, everything is kept: tables, figures, the run that they were made from, the adapter, the folded checkpoint, and a page.

    ```
    residual-audio demo --out runs/demo
    ```
    """
    writable(out)
    from .screen import console, say

    tour = Tour(open_model("tiny", Machine()), limit, out)
    steps = STEPS if out is not None else STEPS[:1]
    start, done, whole = time.monotonic(), 0, sum(step.share for step in steps)
    for number, step in enumerate(steps, start=1):
        left = f" (about {duration((time.monotonic() - start) * (whole - done) / done)} left)" if done else ""
        say(f"{number}/{len(steps)} {step.what}{left}")
        step.do(tour)
        done += step.share
    for shown in tour.screen:
        if isinstance(shown, str):
            say(shown)
        else:
            console.print(shown)


def duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"


def classify(tour: Tour) -> None:
    """Zero-shot accuracy on real notes, and on the synthesised sounds in new takes."""
    from ..evaluation import zero_shot
    from .screen import screen_table, unreadable

    table = screen_table("data", "clips", "classes", "chance", "top-1 % [95 %]", "top-5", title="tiny by prompts")
    for name in CLASSIFIED:
        data = tour.open(name)
        result = zero_shot(tour.encoder, data)
        unreadable(result.errors, data)
        first, second = list(result.summary().values())[:2]
        counts = (str(len(result.dataset)), str(len(data.labels)), f"{100 / len(data.labels):.1f}")
        table.add_row(name, *counts, first.percent(), percent(second.value))
        if tour.out is not None:
            result.write(tour.out / name)
    tour.screen.append(table)


def record(tour: Tour) -> None:
    """The output of every head for every note, its moments, and its share of the embedding."""
    from ..extraction import extract

    data = tour.open()
    extract(tour.encoder, data, tour.home / "run", ("head", "moments", "direct"))


def ablate(tour: Tour) -> None:
    """What the classifier loses without each block, and without each head."""
    from ..ablation import ablate as run_ablation

    data, folder = tour.open(), tour.home / "run"
    for units, part in ABLATED.items():
        clips = max(1, len(data) // part)
        result = run_ablation(tour.encoder, data, units, clips=clips, out=folder)
        result.write(folder)
        if units == "blocks":
            worst = result.table().nlargest(1, "margin_drop").iloc[0]
            interval = f"{worst.margin_drop:.3f} [{worst.margin_low:.3f}, {worst.margin_high:.3f}]"
            tour.screen.append(f"Without block {worst.label} the margin falls most: by {interval}.")


def analyze(tour: Tour) -> None:
    """Dimension, spectra, specialisation and discriminability of every head, as tables and figures."""
    from ..analysis import analyze as run_analysis
    from ..extraction import Run
    from ..report.paper_tables import write_paper_tables
    from .analyze import draw_figures

    run, folder = Run.open(str(tour.home / "run")), tour.home / "run"
    analysis = run_analysis(run)
    analysis.write(folder)
    write_paper_tables({LOOKED_INTO: analysis}, folder / "tables")
    draw_figures(folder, analysis)
    stages = ", ".join(
        f"S{stage} {axes:.1f}" for stage, axes in zip(*(analysis.tables["stages"][c] for c in ("stage", "pca_99")), strict=True)
    )
    tour.screen.append(f"Axes per head (99 % of its variance), by stage: {stages}.")


def retune(tour: Tour) -> None:
    """ResiDual on the last blocks against the model as it is and a linear probe: cross-validated over instruments."""
    from ..comparison.compare import compare
    from .compare import compared
    from .figures import draw

    data, folder = tour.open(), tour.home / "compare"
    comparison = compare(tour.encoder, data, folder, METHODS, RECIPE)
    comparison.write(folder)
    draw(
        {"comparison_summary": comparison.summary},
        folder / "figures",
        {"model": tour.encoder.name, "dataset": data.name, "clips": len(data)},
    )
    tour.screen.append(compared(comparison, tour.encoder.name, f"{data.name}, instruments not heard in training"))


def keep(tour: Tour) -> None:
    """ResiDual for good: an adapter, and the checkpoint that it folds into. What it is worth on unseen clips, `retune` has shown."""
    import shutil

    from ..adaptation.adapt import adapt
    from ..adaptation.fold import fold

    adapted = adapt(tour.encoder, tour.open(), RECIPE, held=False)
    adapted.write(tour.home / "adapter")
    shutil.rmtree(tour.home / "folded", ignore_errors=True)
    fold(tour.encoder, adapted.residual).save(tour.home / "folded")


def show(tour: Tour) -> None:
    """The page, and where everything is."""
    from ..lazy import MissingExtra
    from ..report import report

    home = tour.home
    try:
        page = report(home / "run", compare=[home / "compare"], adapter=home / "adapter", clips=SHOWN)
    except MissingExtra as error:
        opened = f"No page: {error}, and run this again."
    else:
        opened = f"Open the page in a browser ({page.stat().st_size / 1e6:.1f} MB):\n{page}"
    figures = len(list((home / "run" / "figures").glob("*.png")))
    tour.screen += [
        f"In {home}:",
        f"  {', '.join(CLASSIFIED)}   every prediction by prompts",
        f"  run                what every head writes, tables, {figures} figures",
        "  compare            the methods, fold by fold",
        "  adapter, folded    what was learned; an ordinary checkpoint that has it",
        opened,
    ]


@dataclass(frozen=True)
class Step:
    """``share``: of the time of all steps, as seconds measured on two cores. Only their ratios count."""

    do: Callable[[Tour], None]
    share: int
    what: str


STEPS = (
    Step(classify, 18, "classify real notes and synthesised sounds by prompts"),
    Step(record, 5, "record what every head writes"),
    Step(ablate, 32, "ablate each block and each head"),
    Step(analyze, 21, "analyse the heads and draw the figures"),
    Step(retune, 60, "retune the last blocks, cross-validated over instruments"),
    Step(keep, 13, "learn from all notes, fold it into a checkpoint"),
    Step(show, 35, "write the page"),
)
