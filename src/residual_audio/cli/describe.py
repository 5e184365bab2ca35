"""``residual-audio describe``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..rounding import percent
from .checks import check_run, check_template, check_words, writable
from .options import DictionaryOption

if TYPE_CHECKING:
    from ..meaning import Description

SHOWN = 5
SHORT = {"textspan": "span", "somp": "somp", "correlation": "corr"}


def describe(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A finished run of `residual-audio extract` with `direct` in its --granularity.")
    ],
    dictionary: DictionaryOption = None,
    units: Annotated[
        str, typer.Option(help='heads, mlps, all; with stages, blocks or labels: "S3 heads", "S2B1", "S2B1H7 S3B0M E".')
    ] = "heads",
    method: Annotated[str, typer.Option(help="textspan, somp, correlation; comma-separated.")] = "textspan,somp,correlation",
    words: Annotated[int, typer.Option(min=2, help="Words per list.")] = 5,
    components: Annotated[int, typer.Option(min=1, help="Principal components of each unit that the correlation route names.")] = 5,
    permutations: Annotated[int, typer.Option(min=2, help="Permuted runs of each method for the null of the coherence.")] = 999,
    resamples: Annotated[int, typer.Option(min=0, help="Bootstrap resamples of the clips for the stability of words.")] = 20,
    template: Annotated[
        str, typer.Option(help="A set of prompts, or your own text with {}, around each concept; plain: the concept itself.")
    ] = "plain",
    centre: Annotated[
        bool, typer.Option("--centre/--no-centre", help="Take the dictionary's mean direction away first, where all texts lie in one cone.")
    ] = False,
    select: Annotated[
        bool,
        typer.Option("--select/--no-select", help="Also rank heads by their alignment with the class texts: accuracy with the best k."),
    ] = True,
    class_template: Annotated[str | None, typer.Option(help="Prompts for the classes in the selection; default: sound-of.")] = None,
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Draw accuracy_vs_k (PDF and PNG).")] = True,
    out: Annotated[Path | None, typer.Option(help="Where tables/ and figures/ go; default: into the run.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of permutations, resamples and halves.")] = 0,
) -> None:
    """Words for what each unit varies in, chosen from a dictionary, with scores that say how far to trust them.

    `tables/words` has one row per word, `tables/descriptions` one row per list: variance explained, coherence against random words
    (z_dictionary) and against the same method on permuted data (z_null, p_null), stability over resampled clips.
    `tables/coherent_stages` says how many heads are coherent, whether that is more than chance, and in which stage; `tables/selection`
    how accurate the model stays with k heads.

    ```
    residual-audio extract tiny synthetic --granularity head,embedding,direct --out runs/synthetic
    residual-audio describe runs/synthetic
    residual-audio describe runs/esc50 --dictionary audioset --dictionary my-words.txt --units "S3 S2B5 heads" --method textspan
    ```
    """
    check_run(run)
    check_words(dictionary)
    check_template(template)
    check_template(class_template)
    writable(out)
    from ..extraction import Run, StoreError
    from ..meaning import describe as run_description
    from .screen import console, errors, quiet_libraries

    opened = Run.open(run)
    here = opened.store.local if out is None else out
    if here is None:
        raise StoreError(f"{run} is remote; say where tables go with --out")
    quiet_libraries()
    result = run_description(
        opened, dictionary, units, methods=[m.strip() for m in method.split(",") if m.strip()], words=words, components=components,
        permutations=permutations, resamples=resamples, template=template, centre=centre, select=select, class_template=class_template,
        seed=seed, tell=lambda line: errors.print(line, soft_wrap=True),
    )  # fmt: skip
    result.write(here)
    if figures and "selection" in result.tables:
        from .figures import draw

        draw(result.tables, here / "figures", result.info, only=["accuracy_vs_k"])
    show(result)
    console.print(f"tables: {here / 'tables'}", soft_wrap=True)


def show(result: Description) -> None:
    """The most coherent lists of each method, and what few heads achieve."""
    from rich.table import Table

    from .screen import console

    info, lists = result.info, result.tables["descriptions"]
    title = f"{info['model']} on {info['dataset']}: most coherent of {len(lists)} lists from {info['dictionary']['words']} words"
    screen = Table(title=title)
    for name in ("unit", "by", "words", "expl.", "z", "null z", "p", "stable"):
        screen.add_column(name, no_wrap=name != "words", justify="left" if name in ("unit", "by", "words") else "right")
    for method, of_method in lists.groupby("method", sort=False):
        for _, r in of_method.nlargest(SHOWN, "z_null").iterrows():
            unit = r.label + (f" PC{r.component}" if r.component else "")
            trust = (f"{r.z_dictionary:+.1f}", f"{r.z_null:+.1f}", f"{r.p_null:.3f}", f"{r.stability:.2f}")
            screen.add_row(unit, SHORT[str(method)], r.words, f"{100 * r.explained:.0f} %", *trust)
        screen.add_section()
    console.print(screen)
    for line in counted(result):
        console.print(line, soft_wrap=True)
    summary = result.tables.get("selection_summary")
    if summary is not None:
        columns = ("ranking", "MLPs", "no head", f"{summary.few[0]} heads", "all", "k for 95 % of it")
        kept = Table(*columns, title="accuracy with the best k heads kept")
        for _, r in summary.iterrows():
            numbers = [percent(v) for v in (r.accuracy_none, r.accuracy_few, r.accuracy_all)]
            kept.add_row(r.ranking, r.others, *numbers, f"{r.reached} ({100 * r.reached / r.heads:.0f} %)")
        console.print(kept)
    elif info["selection"].startswith("left out"):
        console.print(f"selection {info['selection']}")


def counted(result: Description) -> list[str]:
    """How many heads are coherent by each method, and whether that is more than chance."""
    table = result.tables["coherent_stages"]
    return [
        f"{r.method}: {r.significant} of {r.heads} heads coherent at p ≤ 0.05 ({r.expected_significant:.1f} in permuted runs); "
        f"p of the count {r.p_count:.3f}, after Holm {r.p_holm:.3f}"
        for r in table[table.stage == -1].itertuples()
    ]
