"""``residual-audio zero-shot``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..models.loading import Running
from ..options import option_specs
from ..rounding import percent
from .checks import check_classifiers, check_model, check_template, writable
from .late_help import ClassifierName, Template, classifier_help, helped, template_help
from .options import Data, DatasetArgument, Machine, ModelArgument, open_model, takes
from .over_time import Listening, check_unread, listen

if TYPE_CHECKING:
    from ..evaluation import ZeroShotResult


@helped(classifier=classifier_help, template=template_help)
@takes(listening=Listening, data=Data, machine=Machine, loading=Running)
def zero_shot(
    model: ModelArgument,
    dataset: DatasetArgument,
    listening: Listening,
    data: Data,
    machine: Machine,
    loading: Running,
    over_time: Annotated[
        bool, typer.Option("--over-time", help="DATASET is one recording of any length: tell where in it each --text is heard.")
    ] = False,
    text: Annotated[list[str] | None, typer.Option("--text", help="With --over-time: what to listen for; several times.")] = None,
    classifier: ClassifierName = "auto",
    template: Template = None,
    folds: Annotated[
        Literal["official", "stratified"],
        typer.Option(
            help="official (the dataset's own; else stratified, keeping speakers and recordings together) or stratified (random)."
        ),
    ] = "official",
    out: Annotated[Path | None, typer.Option(help="Directory for run.json, clips.parquet and tables/.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Clips that go through the model at once.")] = 16,
    seed: Annotated[int, typer.Option(help="Seed of made folds and of the bootstrap.")] = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with status 1 if any clip could not be read.")] = False,
) -> None:
    """Classify a dataset with the model as it is, with 95 % intervals over groups of clips.

    Prints top-1, top-5 and macro accuracy and the hardest classes; `--out` keeps all tables. With `--over-time`, a recording of any
    length is heard in overlapping windows: the seconds where each text is heard, and with `--out` scores over time, the embedding of
    every window, and a figure.

    ```
    residual-audio zero-shot tiny notes
    residual-audio zero-shot laion/clap-htsat-unfused esc50 --data-root ~/data/ESC-50 --template laion --out runs/laion-esc50
    residual-audio zero-shot ~/models/whisper-tiny.en esc50 --data-root ~/data/ESC-50 --seconds 5
    residual-audio zero-shot tiny field.wav --over-time --text "a dog barking" --text rain --text "background noise" --out runs/field
    ```
    """
    writable(out)
    check_model(model)
    check_template(template)
    if over_time:
        unread = {"--classifier": classifier != "auto", "--folds": folds != "official", "--seed": seed, "--strict": strict}
        check_unread(True, unread | {spec.flag: getattr(data, name) != spec.default for name, spec in option_specs(Data).items()})
        listen(model, dataset, text or [], listening, machine, loading, template=template, batch_size=batch_size, out=out)
        return
    check_unread(False, {"--text": text} | {option_specs(Listening)[name].flag: True for name in listening.given})
    check_classifiers(classifier)
    clips = data.open(dataset)
    from ..evaluation import zero_shot as evaluate
    from .screen import say, unreadable

    encoder = open_model(model, machine, loading)
    result = evaluate(
        encoder, clips, classifier=classifier, template=template, folds=folds, batch_size=batch_size, workers=machine.workers,
        seed=seed,
    )  # fmt: skip
    if out is not None:
        result.write(out)
    show(result)
    unreadable(result.errors, clips, out and out / f"{result.record}.json")
    if out is not None:
        say(f"written to {out}")
    if strict and result.errors:
        raise typer.Exit(1)


def show(result: ZeroShotResult) -> None:
    """The figures, and the classes it finds hardest."""
    from rich.table import Table

    from .screen import console

    data, settings = result.dataset, result.made_by["settings"]
    how = f"{result.classifier} '{settings['template']}'" if "template" in settings else f"{result.classifier} of the other folds"
    table = Table(
        "measure",
        "percent [95 % interval]",
        title=f"{result.made_by['model']['name']} on {data.name}",
        caption=f"{len(data)} clips, {len(data.labels)} classes, {how}",
    )
    for name, interval in result.summary().items():
        table.add_row(name, interval.percent())
    table.add_row("chance", f"{100 / len(data.labels):.1f}")
    folds = result.per_fold()
    if len(folds) > 1:
        table.add_row(f"{len(folds)} folds ({data.folds})", f"{percent(folds.accuracy.mean())} ± {percent(folds.accuracy.std())}")
    console.print(table)
    classes = result.per_class().sort_values(["accuracy", "label"]).head(8)
    hardest = Table("hardest classes", "clips", "percent", "most often taken for")
    for row in classes.itertuples():
        hardest.add_row(row.label, str(row.clips), f"{100 * row.accuracy:.0f}", row.most_confused_with)
    console.print(hardest)
