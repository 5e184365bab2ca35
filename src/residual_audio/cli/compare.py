"""``residual-audio compare``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..adaptation.methods import METHODS
from ..adaptation.recipe import Recipe
from ..comparison.protocol import COMPARED, Protocol, bare
from ..models.loading import Loading
from ..options import words
from ..rounding import percent
from .checks import check_classifiers, check_model, check_template, writable
from .late_help import classifiers_help, helped
from .options import Data, DatasetArgument, Machine, ModelArgument, of_methods, open_model, takes

if TYPE_CHECKING:
    from rich.table import Table

    from ..comparison.compare import Comparison

ALL = "all"


@helped(classifier=classifiers_help)
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
    methods: Annotated[
        str, typer.Option(help="Comma-separated methods, the first is the baseline; METHOD+CLASSIFIER for one line of its own; or all.")
    ] = ",".join(COMPARED),
    other: Annotated[
        str | None, typer.Option(help="A second dataset: does adapting harm it? By prompts, or where there are no texts by centroids.")
    ] = None,
    novel: Annotated[
        bool, typer.Option("--novel", help="Adapt to the first half of the classes; how well are the others told by their prompts?")
    ] = False,
    shots: Annotated[
        int | None, typer.Option(min=1, help="So many clips per class for everything outside the test; see `residual-audio few-shot`.")
    ] = None,
) -> None:
    """Cross-validate adaptation methods against each other, with intervals and corrected tests.

    Inside each training fold, disjoint parts give the basis, are learned from, and say when to stop; the test fold is scored once.
    An option that none of the chosen methods reads is an error.

    Every method is learned once per fold. Each classifier is then fitted on the adapted embeddings of the clips outside the test, so
    that `--classifier prompts,gda,probe` gives three lines per method; `plain+probe` names a single one. More classifiers can be added
    to a finished comparison: nothing is learned again.

    Methods:

    {methods}

    ```
    residual-audio compare tiny notes --units "S3 heads" --out runs/compare-notes
    residual-audio compare tiny notes --methods plain,residual,lora --classifier prompts,gda,probe --out runs/pairs
    residual-audio compare tiny notes --methods plain,residual,lora,finetune --novel --strengths 0.25,0.5,0.75,1 --out runs/novel
    ```
    """
    chosen = list(METHODS) if methods == ALL else words(methods)
    recipe.check(bare(chosen))  # before anything heavy is loaded
    writable(out)
    check_model(model)
    check_classifiers(protocol.classifier)
    check_template(protocol.template)
    clips = data.open(dataset)
    second = Data(download=data.download, limit=data.limit).open(other) if other else None
    from ..comparison.compare import compare as run_comparison
    from .figures import draw
    from .screen import console, tell, unreadable

    encoder = open_model(model, machine, loading)
    comparison = run_comparison(
        encoder, clips, out, chosen, recipe, protocol, other=second, novel=novel, shots=shots, workers=machine.workers,
        tell=tell,
    )  # fmt: skip
    comparison.write(out)
    caption = {"model": encoder.name, "dataset": clips.name, "clips": len(clips) - len(comparison.errors)}
    drawn = {name: table for name, table in comparison.tables.items() if name in ("comparison_summary", "comparison_strength")}
    if "comparison_training" in comparison.tables:
        drawn["training"] = comparison.tables["comparison_training"]
    draw(drawn, out / "figures", caption)
    unreadable(comparison.errors, clips, out / f"{comparison.record}.json", comparison.info.get("keep_clips"))
    console.print(compared(comparison, encoder.name, clips.name, second.name if second else ""))


compare.__doc__ = str(compare.__doc__).replace("{methods}", "\n    ".join(f"- {name}: {m.help}" for name, m in METHODS.items()))


def compared(comparison: Comparison, model: str, data: str, other: str = "") -> Table:
    """The methods on one screen."""
    from ..evaluation.paired import against_first
    from .screen import p_text, screen_table

    p = against_first(comparison.paired).p_holm
    baseline = comparison.summary.method.iloc[0]
    summary = comparison.summary
    elsewhere = {f"on {other}": "other"} if other else {}
    elsewhere |= {"novel": "novel", "harmonic": "harmonic"} if "novel" in summary else {}
    columns = ("trained", "accuracy %", "95 %", f"p vs {baseline}", "s/fold", *([] if elsewhere else ["MB"]), *elsewhere)
    table = screen_table("method", *columns, title=f"{model} on {data}")
    for _, row in comparison.summary.iterrows():
        cells = [
            row.method,
            f"{row.trained:,}",
            f"{percent(row.accuracy)} ± {percent(row['std'])}",
            f"[{percent(row.low)}, {percent(row.high)}]",
        ]
        cells += [p_text(p[row.method]) if row.method in p else "", f"{row.seconds:.0f}", *([] if elsewhere else [f"{row.peak_mb:.0f}"])]
        cells += [percent(row[name]) if row[name] == row[name] else "–" for name in elsewhere.values()]
        table.add_row(*cells)
    return table
