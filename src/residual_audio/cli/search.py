"""``residual-audio search``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..adaptation.methods import METHODS
from ..adaptation.recipe import Recipe
from ..comparison.protocol import Protocol
from ..models.loading import Loading
from ..rounding import percent
from .checks import check_classifiers, check_model, check_template, writable
from .late_help import classifier_help, helped
from .options import Data, DatasetArgument, Machine, ModelArgument, of_methods, open_model, takes

if TYPE_CHECKING:
    from ..comparison.search import Search

SHOWN = 15
ABLE = [name for name, method in METHODS.items() if method.searchable]


@helped(classifier=classifier_help)
@takes(recipe=of_methods(ABLE), protocol=Protocol, data=Data, machine=Machine, loading=Loading)
def search(
    model: ModelArgument,
    dataset: DatasetArgument,
    out: Annotated[Path, typer.Option(help="Folder of the search; rerun the same command to resume at the last finished cell.")],
    recipe: Recipe,
    protocol: Protocol,
    data: Data,
    machine: Machine,
    loading: Loading,
    space: Annotated[
        Literal["stages", "grid", "optuna"],
        typer.Option(help="stages (all subsets of them), grid (every combination of --set) or optuna (draws)."),
    ] = "stages",
    kind: Annotated[
        str | None, typer.Option(help="What subsets of stages reweight: heads, blocks, stages or mlps; default: heads.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="KEY=V1,V2,… (grid, optuna) or KEY=LOW:HIGH[:log] (optuna), for any option of the method: rate, kept, units, … "
            "May be given several times.",
        ),
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="How many draws `optuna` makes; default: 20.")] = None,
    method: Annotated[str, typer.Option(help=f"The method to search with: {', '.join(ABLE)}.")] = "residual",
) -> None:
    """Try many recipes and choose one honestly: by accuracy on the stopping part of the training folds, never by the test folds.

    Test accuracies stand beside the ranking to be looked at; choosing by them would flatter. `nested` is the accuracy when every fold
    takes the trial that was best on its own stopping part: what this search is worth on new clips.

    ```
    residual-audio search tiny notes --space stages --rate 0.1 --out runs/stages-notes
    residual-audio search tiny notes --space grid --units "S3 heads" --set rate=0.02,0.1 --set mean=keep,drop --out runs/grid
    residual-audio search tiny notes --space grid --method prune-early --set leading=2,3 --set blocks=0-1,0-3 --out runs/presets
    residual-audio search tiny notes --space optuna --set rate=1e-3:1:log --set kept=2:8 --trials 30 --out runs/draws
    ```
    """
    recipe.check([method])  # before anything heavy is loaded
    writable(out)
    check_model(model)
    check_classifiers(protocol.classifier)
    check_template(protocol.template)
    clips = data.open(dataset)
    from ..comparison.search import search as run_search
    from .figures import draw
    from .screen import say, tell, unreadable

    encoder = open_model(model, machine, loading)
    searched = run_search(
        encoder, clips, out, space, recipe, protocol, settings=settings or [], kind=kind, trials=trials, method=method,
        workers=machine.workers, tell=tell,
    )  # fmt: skip
    searched.write(out)
    caption = {"model": encoder.name, "dataset": clips.name, "clips": len(clips) - len(searched.errors)}
    drawn = draw({"search": searched.table}, out / "figures", caption)
    unreadable(searched.errors, clips, out / f"{searched.record}.json")
    show(searched, f"{encoder.name} on {clips.name}")
    say(f"written: {', '.join(map(str, [out / 'tables', *drawn]))}")


def show(searched: Search, title: str) -> None:
    """The best trials by stopping accuracy, and what choosing is worth."""
    from .screen import console, say, screen_table

    screen = screen_table("trial", "trained", "stopping %", "test %", "95 %", title=title)
    screen.columns[0].no_wrap, screen.columns[0].overflow = False, "fold"
    for _, row in searched.table.head(SHOWN).iterrows():
        screen.add_row(
            row.trial, f"{row.trained:,}", percent(row.stop_accuracy), f"{percent(row.accuracy)} ± {percent(row['std'])}",
            f"[{percent(row.low)}, {percent(row.high)}]",
        )  # fmt: skip
    if len(searched.table) > SHOWN:
        screen.caption = f"the first {SHOWN} of {len(searched.table)} trials"
    console.print(screen)
    best = searched.table.iloc[0]
    say(
        f"chosen by the stopping part: {best.trial}, test {percent(best.accuracy)} % (as it is: {percent(best.plain)} %); "
        f"every fold choosing for itself (nested): {searched.nested.percent()} %"
    )
