"""``residual-audio adapt`` and ``residual-audio fold``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..adaptation.methods import adapters
from ..adaptation.recipe import Recipe
from ..adaptation.tuning import Learning, check_learning
from ..models.loading import Loading
from ..options import OptionError
from ..rounding import percent
from .checks import check_adapter, check_model, check_template, writable
from .options import Data, DatasetArgument, Machine, ModelArgument, of_methods, open_model, takes

if TYPE_CHECKING:
    from ..adaptation.adapt import Adapted
    from ..adaptation.train import Epoch


@takes(recipe=of_methods(adapters()), learning=Learning, data=Data, machine=Machine, loading=Loading)
def adapt(
    model: ModelArgument,
    dataset: DatasetArgument,
    out: Annotated[Path, typer.Option(help="Directory of the adapter (PEFT's shape: config, safetensors, card).")],
    recipe: Recipe,
    learning: Learning,
    data: Data,
    machine: Machine,
    loading: Loading,
    method: Annotated[str, typer.Option(help=f"How to adapt: {', '.join(adapters())}.")] = "residual",
    held: Annotated[
        bool, typer.Option(help="Learn without one fold first, and tell what the adapter and a linear probe reach on its clips.")
    ] = True,
    budget: Annotated[
        float | None, typer.Option(help="Minutes of training: rates are tuned where there is time, epochs are fewer where there is not.")
    ] = None,
    begin: Annotated[
        str | None, typer.Option(help="An adapter to go on from: what it does is where learning begins, and its units are learned too.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an adapter that is there already.")] = False,
    push: Annotated[str | None, typer.Option("--push-to-hub", help="Also upload the adapter to this hub repository.")] = None,
    template: Annotated[str | None, typer.Option(help="A set of prompts, or your own text with {}; default: sound-of.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the split, of random axes and of the order of clips.")] = 0,
) -> None:
    """Learn a small change of the chosen units inside their principal axes; everything else stays frozen.

    What is not given is chosen for the clips at hand, and told. A fifth of the clips gives the basis, a fifth says when to stop, the rest
    is learned from; then everything is learned once more from all clips. Nothing is written until training is done.

    ```
    residual-audio adapt tiny notes --out adapters/notes
    residual-audio fold tiny adapters/notes --out folded/notes
    residual-audio zero-shot folded/notes notes
    ```
    """
    recipe.check([method])  # before anything heavy is loaded
    check_learning(learning, recipe, [method])
    writable(out)
    check_model(model)
    check_template(template)
    check_adapter(begin)
    clips = data.open(dataset)
    from ..adaptation.adapt import adapt as run_adaptation
    from ..adaptation.adapter import check_free
    from ..adaptation.hub import push as push_to_hub
    from .figures import draw
    from .screen import say, tell, unreadable

    check_free(out, replace)
    encoder = open_model(model, machine, loading)

    def epoch(done: Epoch) -> None:
        tell(f"epoch {done['epoch']:.0f}: loss {done['train_loss']:.3f}, stopping accuracy {percent(done['stop_accuracy'])} %")

    adapted = run_adaptation(
        encoder, clips, recipe, learning, method=method, held=held, budget=budget, begin=begin, template=template, seed=seed,
        workers=machine.workers, tell=epoch,
    )  # fmt: skip
    adapted.write(out)
    if adapted.history:
        draw(adapted.tables, out / "figures", {**adapted.info, "clips": len(clips) - len(adapted.errors)}, only=["training_dynamics"])
    unreadable(adapted.errors, clips, out / f"{adapted.record}.json", adapted.info.get("keep_clips"))
    if push is not None:
        say(push_to_hub(out, push))
    for reason in adapted.reasons:
        say(f"- {reason}")
    say(f"{adapted.residual.trained:,} numbers in {out}{worth(adapted)}")


def worth(adapted: Adapted) -> str:
    """What is known about an adapter's accuracy, as the end of a sentence."""
    if not adapted.history:
        return "; nothing was trained"
    from ..adaptation.beginning import BEGIN

    if adapted.residual.notes.get("epochs") == 0:
        return (
            "; no epoch was better than the model as it is on the stopping part, so the adapter changes nothing: "
            "more clips, --tune or other --units may help"
            if BEGIN not in adapted.residual.notes
            else "; no epoch was better than the beginning on the stopping part, so the adapter does what that did"
        )
    if not adapted.held:
        reached = f"{percent(adapted.before)} % → {percent(adapted.after)} %"
        return f"; accuracy on the stopping part {reached} (it chose when to stop: see `compare`)"
    figures = ", ".join(f"{name} {percent(value)} %" for name, value in adapted.held.items())
    *others, own = adapted.held.values()
    advice = (
        ""
        if own >= max(others)
        else "\nThe model as it was, or a linear probe on it, is ahead here: `residual-audio compare` tells how surely."
    )
    return f"; on {adapted.info['held']['clips']} clips held out first: {figures}{advice}"


@takes(machine=Machine, loading=Loading)
def fold(
    model: ModelArgument,
    adapter: Annotated[str, typer.Argument(metavar="ADAPTER", help="A directory that `adapt` wrote, or a hub repository.")],
    out: Annotated[Path, typer.Option(help="Directory of the new checkpoint; must not exist, or be empty.")],
    machine: Machine,
    loading: Loading,
) -> None:
    """Write the gains into the weights: an ordinary checkpoint of the same layout, with the same outputs, at no extra cost.

    LAION's layout then loads with plain `ClapModel.from_pretrained`, Microsoft's is a `.pth` with exactly the keys of the original.

    ```
    residual-audio fold tiny adapters/notes --out folded/notes
    ```
    """
    writable(out)
    if out.exists() and any(out.iterdir()):
        raise OptionError(f"{out} is not empty; choose another --out")
    check_model(model)
    check_adapter(adapter)
    from ..adaptation.adapter import load_adapter
    from ..adaptation.fold import fold as run_fold
    from .screen import say

    encoder = open_model(model, machine, loading)
    run_fold(encoder, load_adapter(adapter, encoder)).save(out)
    say(f"{out}: {', '.join(sorted(p.name for p in out.iterdir()))}")
