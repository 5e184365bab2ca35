"""``residual-audio ablate``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..models.loading import Running
from ..rounding import percent
from .checks import check_classifiers, check_model, check_template, writable
from .late_help import ClassifierName, Template, classifier_help, helped, template_help
from .options import Data, DatasetArgument, Machine, ModelArgument, open_model, takes

if TYPE_CHECKING:
    from ..ablation import AblationResult

SHOWN = 6


@helped(classifier=classifier_help, template=template_help)
@takes(data=Data, machine=Machine, loading=Running)
def ablate(
    model: ModelArgument,
    dataset: DatasetArgument,
    data: Data,
    machine: Machine,
    loading: Running,
    units: Annotated[
        str,
        typer.Option(
            help="What to replace, one at a time: heads, mlps, blocks or stages (their attention writes); with stages, blocks or labels: "
            '"S3 heads", "S2B1H7 S3 mlps".'
        ),
    ] = "heads",
    how: Annotated[Literal["zero", "mean"], typer.Option(help="zero, or mean: the unit's mean over the data.")] = "mean",
    classifier: ClassifierName = "auto",
    template: Template = None,
    folds: Annotated[
        Literal["official", "stratified"] | None,
        typer.Option(help="official or stratified, as in `zero-shot`, for classifiers that learn from clips; default: official."),
    ] = None,
    clips: Annotated[
        int | None,
        typer.Option(min=1, help="Ablate only so many clips, spread over the classes; classifier and means still come from all clips."),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Clips whose whole forward runs at once.")] = 8,
    rows: Annotated[int, typer.Option(min=1, help="Clips × units that go through the model at once.")] = 32,
    seed: Annotated[int, typer.Option(help="Seed of made folds and of the bootstrap.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for tables/ablation_KIND; may be an extraction's run. Resumable: rerun the same command."),
    ] = None,
) -> None:
    """Replace each unit in turn and see what the classifier loses: in accuracy, in margin, by class, with intervals.

    The forward up to a unit runs once and only what follows is repeated. Beside the true drop in margin stands its first-order estimate,
    which one backward pass gives for all units, and their rank correlation. The margin is the true class's score above the best other's.

    ```
    residual-audio ablate tiny notes --units blocks --how zero
    residual-audio ablate tiny synthetic --units "S3 heads" --clips 200 --out runs/synthetic
    ```
    """
    writable(out)
    check_model(model)
    check_classifiers(classifier)
    check_template(template)
    whole = data.open(dataset)
    from ..ablation import ablate as run_ablation
    from .screen import say, unreadable

    encoder = open_model(model, machine, loading)
    result = run_ablation(
        encoder, whole, units, how, classifier, template=template, folds=folds, clips=clips, batch_size=batch_size, rows=rows, out=out,
        workers=machine.workers, seed=seed,
    )  # fmt: skip
    if out is not None:
        result.write(out)
    unreadable(result.errors, whole, out and out / f"{result.record}.json")
    show(result)
    if out is not None:
        say(f"tables: {out / 'tables'}")


def show(result: AblationResult) -> None:
    """The units of each kind that matter most."""
    from .screen import console, p_text, screen_table

    model, data = result.made_by["model"]["name"], result.made_by["dataset"]["name"]
    whole = f"{result.classifier} accuracy {percent(result.accuracy)} %, {len(result.targets)} clips"
    units = result.table().sort_values("margin_drop", ascending=False)
    for kind in result.kinds:
        columns = (kind, "accuracy drop [95 %]", "margin drop [95 %]", "p, all", "first order")
        screen = screen_table(*columns, title=f"{model} on {data}: {result.how} ablation, {whole}")
        for _, r in units[units.kind == kind].head(SHOWN).iterrows():
            accuracy = f"{100 * r.accuracy_drop:+.1f} [{100 * r.accuracy_low:+.1f}, {100 * r.accuracy_high:+.1f}]"
            screen.add_row(r.label, accuracy, f"{r.margin_drop:+.4f} [{r.margin_low:+.4f}, {r.margin_high:+.4f}]",
                           p_text(r.margin_all_p), f"{r.first_order:+.4f}")  # fmt: skip
        console.print(screen)
        rho, p = result.agreement(kind)
        if rho == rho:
            console.print(f"first-order estimate against true drop in margin: Spearman ρ = {rho:.3f} (p = {p:.1e})", soft_wrap=True)
