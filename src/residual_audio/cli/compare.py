"""``residual-audio compare``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..adaptation.methods import METHODS
from ..adaptation.recipe import Recipe
from ..comparison.protocol import COMPARED, Protocol
from ..models.loading import Loading
from .options import Data, DatasetArgument, Machine, ModelArgument, of_methods, open_model, takes, words

if TYPE_CHECKING:
    from ..comparison.compare import Comparison

ALL = "all"


@takes(recipe=of_methods(), protocol=Protocol, data=Data, machine=Machine, loading=Loading)
def compare(
    model: ModelArgument,
    dataset: DatasetArgument,
    out: Annotated[Path, typer.Option(help="Folder of the comparison; rerun the same command to resume at the last finished cell.")],
    recipe: Recipe,
    protocol: Protocol,
    data: Data,
    machine: Machine,
    loading: Loading,
    methods: Annotated[str, typer.Option(help="Comma-separated methods, the first is the baseline; or all.")] = ",".join(COMPARED),
    other: Annotated[
        str | None, typer.Option(help="A second dataset: does adapting harm it? (zero-shot accuracy of the adapted models)")
    ] = None,
    shots: Annotated[
        int | None, typer.Option(min=1, help="So many clips per class for everything outside the test; see `residual-audio few-shot`.")
    ] = None,
) -> None:
    """Cross-validate adaptation methods against each other, with intervals and corrected tests.

    Inside each training fold, disjoint parts give the basis, are learned from, and say when to stop; the test fold is scored once.
    An option that none of the chosen methods reads is an error.

    Methods:

    {methods}

    ```
    residual-audio compare tiny synthetic-timbre --units "S3 heads" --out runs/compare-timbre
    ```
    """
    chosen = list(METHODS) if methods == ALL else words(methods)
    recipe.check(chosen)  # before anything heavy is loaded
    from dataclasses import replace

    from ..comparison.compare import compare as run_comparison
    from ..report.figures import draw
    from .screen import progress, tell, unreadable

    encoder, clips = open_model(model, machine, loading), data.open(dataset)
    second = replace(data, data_root=None, group=None).open(other) if other else None
    with progress(f"decoding {clips.name}", len(clips) + (len(second) if second else 0)) as advance:
        comparison = run_comparison(
            encoder, clips, out, chosen, recipe, protocol, other=second, shots=shots, workers=machine.workers, advance=advance, tell=tell
        )  # fmt: skip
    comparison.write(out)
    caption = {"model": encoder.name, "dataset": clips.name, "clips": len(clips) - len(comparison.errors)}
    draw({"comparison_summary": comparison.summary}, out / "figures", caption)
    unreadable(comparison.errors, len(clips))
    show(comparison, encoder.name, clips.name, second.name if second else "")


compare.__doc__ = str(compare.__doc__).replace("{methods}", "\n    ".join(f"- {name}: {m.help}" for name, m in METHODS.items()))


def show(comparison: Comparison, model: str, data: str, other: str = "") -> None:
    """The methods on one screen."""
    from ..evaluation.paired import against_first
    from .screen import console, p_text, screen_table

    p = against_first(comparison.paired).p_holm
    baseline = comparison.summary.method.iloc[0]
    extra = [f"on {other}"] if other else []
    columns = ("trained", "accuracy %", "95 %", f"p vs {baseline}", "s/fold", "MB", *extra)
    table = screen_table("method", *columns, title=f"{model} on {data}")
    for _, row in comparison.summary.iterrows():
        cells = [
            row.method,
            f"{row.trained:,}",
            f"{100 * row.accuracy:.1f} ± {100 * row['std']:.1f}",
            f"[{100 * row.low:.1f}, {100 * row.high:.1f}]",
        ]
        cells += [p_text(p[row.method]) if row.method in p else "", f"{row.seconds:.0f}", f"{row.peak_mb:.0f}"]
        if other:
            cells.append(f"{100 * row.other:.1f}" if row.other == row.other else "–")
        table.add_row(*cells)
    console.print(table)
