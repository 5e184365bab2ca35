"""``residual-audio reproduce``"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..options import words
from .checks import check_file, check_model, writable
from .options import Data, Machine, open_model, takes
from .reproduce_screen import OFFLINE, listing, remark, show, show_findings, show_heads, show_pairs

if TYPE_CHECKING:
    import pandas as pd

    from ..data import Dataset
    from ..models import Encoder


@takes(data=Data, machine=Machine)
def reproduce(
    data: Data,
    machine: Machine,
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="TABLE", help="Published tables by name, or all; without any, they are listed.")
    ] = None,
    model: Annotated[
        str, typer.Option(help="Other models than the published one, comma-separated; then nothing is compared but findings.")
    ] = "",
    dataset: Annotated[
        str, typer.Option(help="Other datasets than the published ones, comma-separated; then nothing is compared but findings.")
    ] = "",
    published: Annotated[
        bool | None,
        typer.Option("--published/--no-published", help="Compare, or do not; needed where --model is a local copy of the published one."),
    ] = None,
    protocol: Annotated[
        Literal["both", "published", "ours"],
        typer.Option(help="Measure as the authors did, by our defaults, or both; this matters for ablation and accuracies."),
    ] = "both",
    published_heads: Annotated[
        Path | None, typer.Option(help="A published table of heads (CSV with head_id): every head's measures are compared with ours.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Train at most so long: a quick look, not a reproduction.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of draws, folds and training.")] = 42,
    out: Annotated[
        Path | None, typer.Option(help="Keeps what is finished: rerun the same command to resume; default: nothing is kept.")
    ] = None,
) -> None:
    """Run the protocol behind a published table and print our figures beside the published ones.

    Without arguments, the tables are listed with the model and the data that they need. `OUT/tables` gets one table each
    (Parquet and CSV); extraction, ablation and finished folds lie under `OUT` and are used again.
    `--data-root` is where the dataset lies, or of several datasets the folder that holds them.

    Below each table stands what was found there (a sign, an order, a trend), and whether it holds in ours. This runs on any models and
    datasets, each with each: `OUT/tables/reproduce_findings` has one row per finding and pair.

    ```
    residual-audio reproduce
    residual-audio reproduce seed1-1 seed1-fig2 --data-root ~/data/ESC-50 --published-heads heads.csv --out runs/reproduce
    residual-audio reproduce all --download --out runs/reproduce
    residual-audio reproduce all --model tiny --dataset notes --limit 120 --epochs 3
    residual-audio reproduce seed1-1 seed1-fig2 --model tiny,laion/clap-htsat-unfused --dataset notes,synthetic-timbre --out runs/findings
    ```
    """
    writable(out)
    for name in words(model):
        check_model(name)
    if published_heads is not None:
        check_file(published_heads, "--published-heads")
    from ..comparison.sweep import place_of
    from ..reproduction.published import published_figures
    from ..reproduction.reproduce import HEADS, choose
    from ..reproduction.reproduce import reproduce as run_reproduction
    from ..reproduction.targets import TARGETS
    from .figures import draw
    from .screen import say, tell

    models, datasets = words(model), words(dataset)
    if not choose(tables or [], once=bool(datasets)) and published_heads is None:
        listing(TARGETS)
        return
    data.check_sample()
    compared = published if published is not None else not models and not datasets
    opening = Opening(bool(models), bool(datasets), data, machine)
    figures = published_figures() if compared else None

    def done(name: str, title: str, table: pd.DataFrame, found: pd.DataFrame) -> None:
        if name == HEADS:
            show_heads(table, f"{title}, head by head")
        else:
            show(table, f"{name}: {TARGETS[name].what}\n{title}")
            remark(TARGETS[name], table, figures, epochs)
            show_findings(found)
            if out is not None:
                several = len(models) > 1 or len(datasets) > 1
                model_name, _, data_name = title.partition(" on ")
                place = out / "figures" / place_of(title) if several else out / "figures"
                draw({f"reproduce_{name}": table}, place, {"model": model_name, "dataset": data_name})

    reproduction = run_reproduction(
        tables or [], opening.encoder, opening.data, out, models=models, datasets=datasets, published=compared, protocol=protocol,
        heads=published_heads, epochs=epochs, seed=seed, workers=machine.workers, tell=tell, done=done,
    )  # fmt: skip
    if "reproduce_findings" in reproduction.tables:
        show_pairs(reproduction.tables["reproduce_findings"])
    for what, error in reproduction.errors.items():
        say(f"left out: {what}: {error}")
    if out is not None:
        reproduction.write(out)
        say(f"tables: {out / 'tables'}")


@dataclass(frozen=True)
class Opening:
    """Where models and data come from: as published, or what was named in their place."""

    other_models: bool
    other_data: bool
    source: Data
    machine: Machine

    def encoder(self, name: str) -> Encoder:
        from ..models import EncoderError

        try:
            return open_model(name, self.machine)
        except EncoderError as error:
            if self.other_models:
                raise
            raise EncoderError(
                f"{error} A local copy of {name}: --model PATH --published. Without it, the same code runs by {OFFLINE}."
            ) from error

    def data(self, name: str, several: bool) -> Dataset:
        """By its published name, or by that of another; ``several``: the root holds a folder for each."""
        from ..data import DataError
        from ..reproduction.targets import DATA

        known = name if self.other_data else DATA[name]
        root = Path(self.source.data_root).expanduser() if self.source.data_root else None
        root = root / known if root and ((several and not self.other_data) or (root / known).is_dir()) else root
        try:
            return replace(self.source, data_root=None if root is None else str(root)).open(known)
        except DataError as error:
            if self.other_data:
                raise
            raise DataError(f"{error}\nWithout it, the same code runs by {OFFLINE}.") from error
