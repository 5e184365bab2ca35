"""``residual-audio reproduce``"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from .checks import check_file, check_model, writable
from .options import Data, Machine, open_model, takes
from .reproduce_screen import OFFLINE, listing, remark, show, show_heads

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
    model: Annotated[str | None, typer.Option(help="Another model than the published one; then nothing is compared.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Another dataset than the published ones; then nothing is compared.")] = None,
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
    `--data-root` is where the dataset lies, or of several datasets the folder that holds them; `--limit` draws in proportion to the
    classes.

    ```
    residual-audio reproduce
    residual-audio reproduce seed1-1 seed1-fig2 --data-root ~/data/ESC-50 --published-heads heads.csv --out runs/reproduce
    residual-audio reproduce all --download --out runs/reproduce
    residual-audio reproduce all --model tiny --dataset synthetic-timbre --limit 120 --epochs 3
    ```
    """
    writable(out)
    if model is not None:
        check_model(model)
    if published_heads is not None:
        check_file(published_heads, "--published-heads")
    from ..reproduction.published import published_figures
    from ..reproduction.reproduce import HEADS, choose
    from ..reproduction.reproduce import reproduce as run_reproduction
    from ..reproduction.targets import TARGETS
    from .screen import say, tell

    if not choose(tables or [], once=dataset is not None) and published_heads is None:
        listing(TARGETS)
        return
    compared = published if published is not None else model is None and dataset is None
    opening = Opening(model, dataset, data, machine, seed)
    figures = published_figures() if compared else None

    def done(name: str, title: str, table: pd.DataFrame) -> None:
        if name == HEADS:
            show_heads(table, f"{title}, head by head")
        else:
            show(table, f"{name}: {TARGETS[name].what}\n{title}")
            remark(TARGETS[name], table, figures, epochs)

    reproduction = run_reproduction(
        tables or [], opening.encoder, opening.data, out, model=model, dataset=dataset, published=compared, protocol=protocol,
        heads=published_heads, epochs=epochs, seed=seed, workers=machine.workers, tell=tell, done=done,
    )  # fmt: skip
    if out is not None:
        reproduction.write(out)
        say(f"tables: {out / 'tables'}")


@dataclass(frozen=True)
class Opening:
    """Where models and data come from: as published, or what replaces them."""

    model: str | None
    dataset: str | None
    source: Data
    machine: Machine
    seed: int

    def encoder(self, published: str) -> Encoder:
        from ..models import EncoderError

        try:
            return open_model(self.model or published, self.machine)
        except EncoderError as error:
            if self.model is not None:
                raise
            raise EncoderError(
                f"{error} A local copy of {published}: --model PATH --published. Without it, the same code runs by {OFFLINE}."
            ) from error

    def data(self, name: str, several: bool) -> Dataset:
        """By its published name, drawn as published; ``several``: the root holds a folder for each."""
        from ..data import DataError, load_dataset
        from ..reproduction.bench import drawn
        from ..reproduction.targets import DATA, DRAWN

        limit, download = self.source.limit, self.source.download
        root = Path(self.source.data_root).expanduser() if self.source.data_root else None
        if self.dataset is not None:
            loaded = load_dataset(self.dataset, root, download)
            return loaded if limit is None else drawn(loaded, limit, self.seed)
        root = root / DATA[name] if root and (several or (root / DATA[name]).is_dir()) else root
        try:
            loaded = load_dataset(DATA[name], root, download)
        except DataError as error:
            raise DataError(f"{error}\nWithout it, the same code runs by {OFFLINE}.") from error
        loaded = drawn(loaded, DRAWN[name], self.seed) if name in DRAWN else loaded
        return loaded if limit is None else drawn(loaded, limit, self.seed)
