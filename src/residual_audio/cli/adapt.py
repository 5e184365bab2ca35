"""``residual-audio adapt`` and ``residual-audio fold``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..adaptation.methods import adapters
from ..adaptation.recipe import Recipe
from ..models.loading import Loading
from .options import Data, DatasetArgument, Machine, ModelArgument, of_methods, open_model, takes

if TYPE_CHECKING:
    from ..adaptation.train import Epoch


@takes(recipe=of_methods(adapters()), data=Data, machine=Machine, loading=Loading)
def adapt(
    model: ModelArgument,
    dataset: DatasetArgument,
    out: Annotated[Path, typer.Option(help="Directory of the adapter (PEFT's shape: config, safetensors, card).")],
    recipe: Recipe,
    data: Data,
    machine: Machine,
    loading: Loading,
    method: Annotated[str, typer.Option(help=f"How to adapt: {', '.join(adapters())}.")] = "residual",
    push: Annotated[str | None, typer.Option("--push-to-hub", help="Also upload the adapter to this hub repository.")] = None,
    template: Annotated[str | None, typer.Option(help="A set of prompts, or your own text with {}; default: sound-of.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the split, of random axes and of the order of clips.")] = 0,
) -> None:
    """Learn one gain per principal axis of the chosen units; everything else stays frozen.

    A fifth of the clips gives the basis, a fifth says when to stop, the rest is learned from. Nothing is written until training is done.

    ```
    residual-audio adapt tiny synthetic-timbre --units "S3 heads" --rate 0.1 --out adapters/timbre
    residual-audio fold tiny adapters/timbre --out folded/timbre
    residual-audio zero-shot folded/timbre synthetic-timbre
    ```
    """
    recipe.check([method])  # before anything heavy is loaded
    from ..adaptation.adapt import adapt as run_adaptation
    from ..adaptation.adapter import push_adapter
    from .screen import progress, say, tell, unreadable

    encoder, clips = open_model(model, machine, loading), data.open(dataset)

    def epoch(done: Epoch) -> None:
        tell(f"epoch {done['epoch']:.0f}: loss {done['train_loss']:.3f}, stopping accuracy {100 * done['stop_accuracy']:.1f} %")

    with progress(f"decoding {clips.name}", len(clips)) as advance:
        adapted = run_adaptation(
            encoder, clips, recipe, method=method, template=template, seed=seed, workers=machine.workers, advance=advance, tell=epoch
        )  # fmt: skip
    adapted.write(out)
    unreadable(adapted.errors, len(clips))
    if push is not None:
        say(push_adapter(out, push))
    gain = f"; accuracy on the stopping part {100 * adapted.before:.1f} % → {100 * adapted.after:.1f} % (it chose the gains: see `compare`)"
    say(f"{adapted.residual.trained:,} gains in {out}{gain if adapted.history else '; nothing was trained'}")


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
    residual-audio fold tiny adapters/timbre --out folded/timbre
    ```
    """
    from ..adaptation.adapter import load_adapter
    from ..adaptation.fold import FoldError
    from ..adaptation.fold import fold as run_fold
    from .screen import say

    if out.exists() and any(out.iterdir()):
        raise FoldError(f"{out} is not empty; choose another --out")  # told before a model is opened
    encoder = open_model(model, machine, loading)
    run_fold(encoder, load_adapter(adapter, encoder)).save(out)
    say(f"{out}: {', '.join(sorted(p.name for p in out.iterdir()))}")
