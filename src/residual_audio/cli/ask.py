"""``residual-audio ask``"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..lazy import need
from ..rounding import percent
from .checks import check_run, check_template, writable

if TYPE_CHECKING:
    from ..meaning import Answer


def ask(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A finished run of `residual-audio extract` with `direct` in its --granularity.")
    ],
    text: Annotated[str, typer.Argument(metavar="TEXT", help='What to ask for, such as "a dog barking".')],
    units: Annotated[
        str, typer.Option(help='all, heads, mlps; with stages, blocks or labels: "S3 heads", "S2B1", "S2B1H7 S3B0M E".')
    ] = "all",
    components: Annotated[int, typer.Option(min=1, help="Principal components looked at in each of the first units.")] = 3,
    top: Annotated[int, typer.Option(min=1, help="Units and components shown.")] = 8,
    clip: Annotated[
        str | None, typer.Option(help="Id of a clip of the run: draw where in it the text is written (opens the model).")
    ] = None,
    template: Annotated[str, typer.Option(help="A set of prompts, or your own text with {}, around the text.")] = "plain",
    out: Annotated[Path | None, typer.Option(help="Folder for tables/ and figures/; without it a map goes into the run's figures.")] = None,
) -> None:
    """Which units, and which of their components, move clips towards a text; which clips show it; where in one clip it is written.

    A unit's share is the part of the clip-to-clip variance of the cosine with the text that its direct share accounts for:
    over all units and the constant, shares sum to one. The map of a clip sums to its cosine with the text.

    ```
    residual-audio extract tiny synthetic --granularity head,embedding,direct --out runs/synthetic
    residual-audio ask runs/synthetic "a church bell"
    residual-audio ask runs/synthetic "a church bell" --clip source/8/20000000 --out answers/bell
    ```
    """
    if clip is not None:
        need("report", "matplotlib")
    check_run(run)
    check_template(template)
    writable(out)
    from ..extraction import Run, StoreError
    from ..meaning import ask as run_question
    from .screen import console, quiet_libraries

    opened = Run.open(run)
    here = out if out is not None else opened.store.local
    if clip is not None and here is None:
        raise StoreError(f"{run} is remote; say where the figure goes with --out")
    quiet_libraries()
    answer = run_question(opened, text, units, components=components, top=top, clip=clip, template=template)
    if out is not None:
        answer.write(out)
    drawn = None
    if answer.mel is not None and here is not None:
        from ..report.figures import Context
        from ..report.figures.style import save
        from ..report.figures.token_map import FIGURE

        context = Context.of({"model": answer.info["model"], "dataset": answer.info["dataset"], "regime": "direct shares"})
        name = re.sub(r"\W+", "-", f"{FIGURE.name}-{clip}-{text}").strip("-")[:100]
        drawn = save(FIGURE({**answer.tables, "mel": answer.mel}, context), here / "figures", name)
    show(answer, top)
    if out is not None:
        console.print(f"tables: {out / 'tables'}", soft_wrap=True)
    if drawn is not None:
        console.print(f"map: {drawn[1]}", soft_wrap=True)


def show(answer: Answer, top: int) -> None:
    from rich.table import Table

    from .screen import console

    info = answer.info
    score = f"cosine {info['score_mean']:+.3f} ± {info['score_std']:.3f} over {info['clips']} clips"
    title = f"{info['model']} on {info['dataset']}, “{answer.text}”: {score}"
    units = Table("unit", "share of variance", "correlation", "mean", "clips that show it", title=title)
    for _, r in answer.tables["ask_units"].head(top).iterrows():
        units.add_row(r.label, f"{percent(r.share)} %", f"{r.correlation:+.2f}", f"{r['mean']:+.4f}", r.clip_labels)
    console.print(units)
    parts = Table("component", "share of variance", "correlation", "cosine of axis and text", "clips that show it")
    for _, r in answer.tables["ask_components"].head(top).iterrows():
        parts.add_row(f"{r.label} PC{r.component}", f"{percent(r.share)} %", f"{r.correlation:+.2f}", f"{r.along:+.2f}", r.clip_labels)
    console.print(parts)
    if answer.map is not None:
        clip = answer.tables["ask_map"]["clip"].iloc[0]
        console.print(f"the map of {clip} sums to its cosine, {answer.map.score:+.4f}")
