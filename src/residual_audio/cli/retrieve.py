"""``residual-audio retrieve``"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..models.loading import Running
from .checks import check_adapter, check_model, writable
from .options import Data, DatasetArgument, Machine, ModelArgument, open_model, takes

if TYPE_CHECKING:
    from ..data import Dataset
    from ..evaluation.retrieval import AdaptedRetrieval, RetrievalResult


@takes(data=Data, machine=Machine, loading=Running)
def retrieve(
    model: ModelArgument,
    dataset: DatasetArgument,
    data: Data,
    machine: Machine,
    loading: Running,
    adapter: Annotated[
        str | None, typer.Option(help="A directory that `adapt` wrote: the model with and without it, and the paired difference.")
    ] = None,
    caption: Annotated[
        str | None,
        typer.Option(
            help="Columns of a table or of `hf:` that hold captions, comma-separated; default of a table: `caption`, `caption_1`, …"
        ),
    ] = None,
    audio: Annotated[
        Path | None, typer.Option(help="The folder of a table's files, where they may have other endings; default: the table's folder.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Directory for retrieval.json and tables/.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Clips that go through the model at once.")] = 16,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
) -> None:
    """Find clips by captions and captions by clips: R@1, R@5, R@10 and mAP@10, with 95 % intervals over the groups of queries.

    A caption that several clips share is one query with all of them as positives. Equal scores count against the model.
    Clips without a caption are candidates only. A table needs no labels here, and may have a row per caption.

    ```
    residual-audio retrieve tiny synthetic-captions
    residual-audio retrieve tiny synthetic-captions --adapter adapters/notes --out runs/retrieval
    residual-audio retrieve tiny notes
    residual-audio retrieve laion/clap-htsat-unfused clotho/eval.csv --path file_name --audio clotho/evaluation
    ```
    """
    writable(out)
    check_model(model)
    check_adapter(adapter)
    clips = captioned(dataset, data, caption, audio)
    from ..adaptation.adapter import load_adapter
    from ..adaptation.attach import attached
    from ..evaluation.retrieval import AdaptedRetrieval
    from ..evaluation.retrieval import retrieve as run_retrieval
    from .screen import say, unreadable

    encoder = open_model(model, machine, loading)
    residual = None if adapter is None else load_adapter(adapter, encoder).to(encoder.device, encoder.dtype)
    choices: dict[str, Any] = {"batch_size": batch_size, "workers": machine.workers, "seed": seed}
    base = run_retrieval(encoder, clips, **choices)
    result: RetrievalResult | AdaptedRetrieval = base
    if residual is not None:
        with attached(encoder, residual):
            result = AdaptedRetrieval(base, run_retrieval(encoder, clips, **choices), str(adapter))
    if out is not None:
        result.write(out)
    unreadable(result.errors, clips, out and out / f"{result.record}.json")
    show(result, f"{encoder.name} on {clips.name}")
    if out is not None:
        say(f"tables: {out / 'tables'}")


def captioned(dataset: str, data: Data, caption: str | None, audio: Path | None = None) -> Dataset:
    """The dataset with its captions; of a table, only files and captions are read."""
    names = [c.strip() for c in (caption or "").split(",") if c.strip()]
    options: dict[str, Any] = {}
    if dataset.startswith("table:") or dataset.lower().endswith((".csv", ".parquet")):
        # Labels play no part: the files themselves take their place. Every file is one clip, in however many rows it stands.
        files = data.path or "path"
        options = {"path": files, "label": files, "id": files, "caption": names or None, "audio": audio}
    elif data.path is not None:
        raise typer.BadParameter(f"{dataset} is no table; --path names a column of one", param_hint="--path")
    elif audio is not None:
        raise typer.BadParameter(f"{dataset} is no table; --audio is the folder of a table's files", param_hint="--audio")
    elif dataset.startswith("hf:") and names:
        if len(names) > 1:
            raise typer.BadParameter("hf: takes a single column of captions", param_hint="--caption")
        options = {"caption": names[0]}
    elif names:
        raise typer.BadParameter(f"{dataset} has no columns; --caption is for tables and hf:", param_hint="--caption")
    loaded = data.open(dataset, **options)
    return replace(loaded, notes={**loaded.notes, "caption": names}) if names else loaded


def show(result: RetrievalResult | AdaptedRetrieval, title: str) -> None:
    """Both directions on one screen."""
    from rich.table import Table

    from ..evaluation.significance import Interval
    from .screen import console

    tables = result.tables
    clips, difference = result.info["clips"], tables.get("retrieval_difference")
    sides = {str(name): side.reset_index(drop=True) for name, side in tables["retrieval"].groupby("model", sort=False)}
    heads = [f"{name}, %" if len(sides) > 1 else "percent [95 %]" for name in sides]
    caption = f"{clips['used']} clips, {clips['captions']} captions; chance depends on how many positives a query has"
    screen = Table("", "measure", *heads, *(["difference, points [95 %]"] if difference is not None else []), title=title, caption=caption)
    for i, row in sides["base"].iterrows():
        cells = [Interval(*side.loc[i, ["value", "low", "high"]]).percent() for side in sides.values()]
        if difference is not None:
            value, low, high = 100 * difference.loc[i, ["difference", "low", "high"]].astype(float)
            cells.append(f"{value:+.1f} [{low:+.1f}, {high:+.1f}]")
        screen.add_row(row.direction, row.measure, *cells)
    console.print(screen)
