"""``residual-audio few-shot``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..adaptation.recipe import Recipe
from ..comparison.protocol import FEW_SHOT, Protocol, bare
from ..models.loading import Loading
from ..options import words
from ..rounding import percent
from .checks import check_classifiers, check_model, check_template, writable
from .late_help import classifiers_help, helped
from .options import Data, DatasetArgument, Machine, ModelArgument, of_methods, open_model, takes

if TYPE_CHECKING:
    from ..comparison.few_shot import FewShot


@helped(classifier=classifiers_help)
@takes(recipe=of_methods(), protocol=Protocol, data=Data, machine=Machine, loading=Loading)
def few_shot(
    model: ModelArgument,
    dataset: DatasetArgument,
    out: Annotated[Path, typer.Option(help="Folder of the curve; rerun the same command to resume at the last finished cell.")],
    recipe: Recipe,
    protocol: Protocol,
    data: Data,
    machine: Machine,
    loading: Loading,
    methods: Annotated[str, typer.Option(help="Comma-separated methods, as in `compare`: METHOD or METHOD+CLASSIFIER.")] = ",".join(
        FEW_SHOT
    ),
    shots: Annotated[str, typer.Option(help="Clips per class in all, comma-separated; `all` for no limit.")] = "1,2,4,8,16,all",
) -> None:
    """How accuracy grows with the clips per class: one comparison per point, all on the same whole test folds.

    N clips per class are all that a method may use: a quarter of them (at least one of two) says when to stop, the others are learned
    from, and the basis is theirs. `all` is the split of `compare`. With few clips draws differ much: `--repeats 5` averages over several.

    ```
    residual-audio few-shot tiny notes --units "S3 heads" --rate 0.1 --out runs/few-shot-notes
    residual-audio few-shot tiny folder:my-sounds --methods plain,plain+probe,residual --shots 1,4,16,all --repeats 5 --out runs/few-shot
    ```
    """
    chosen = words(methods)
    recipe.check(bare(chosen))  # before anything heavy is loaded
    writable(out)
    check_model(model)
    check_classifiers(protocol.classifier)
    check_template(protocol.template)
    clips = data.open(dataset)
    from ..comparison.few_shot import few_shot as run_few_shot
    from ..comparison.few_shot import parse_shots
    from .figures import draw
    from .screen import say, tell, unreadable

    points = parse_shots(shots)
    encoder = open_model(model, machine, loading)
    curve = run_few_shot(
        encoder, clips, out, chosen, recipe, protocol, shots=points, workers=machine.workers, tell=tell
    )  # fmt: skip
    curve.write(out)
    caption = {"model": encoder.name, "dataset": clips.name, "clips": len(clips) - len(curve.errors)}
    drawn = draw(curve.tables, out / "figures", caption)
    unreadable(curve.errors, clips, out / f"{curve.record}.json", curve.info.get("keep_clips"))
    show(curve, f"{encoder.name} on {clips.name}")
    say(f"table and figure: {out / 'tables'}, {', '.join(map(str, drawn))}")


def show(curve: FewShot, title: str) -> None:
    """A row per method, a column per number of shots."""
    from ..comparison.few_shot import NOTE
    from .screen import console, screen_table

    table = curve.curve
    points = list(dict.fromkeys(table.shots))
    seen = table.drop_duplicates("shots").set_index("shots").seen
    heads = [p if not p.isdigit() or seen[p] > int(p) - 0.5 else f"{p} ({seen[p]:.0f} there)" for p in points]
    screen = screen_table("method", *heads, title=f"{title}: accuracy % ± std over folds", caption=NOTE)
    for method, rows in table.groupby("method", sort=False):
        cells = rows.set_index("shots")
        screen.add_row(method, *(f"{percent(cells.accuracy[p])} ± {percent(cells['std'][p])}" for p in points))
    console.print(screen)
