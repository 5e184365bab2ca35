"""``residual-audio reproduce``"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from . import options as given
from .reproduce_screen import OFFLINE, listing, remark, show, show_heads

if TYPE_CHECKING:
    import pandas as pd

    from ..data import Dataset
    from ..models import Encoder
    from ..reproduction.targets import Target

HEADS = "heads"


def register(app: typer.Typer) -> None:
    app.command("reproduce")(reproduce)


def reproduce(
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
    data_root: Annotated[Path | None, typer.Option(help="Where the dataset lies; of several datasets: the folder that holds them.")] = None,
    download: given.Download = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Use at most so many clips, drawn in proportion to the classes.")] = None,
    workers: given.Workers = None,
    device: given.Device = "cpu",
    seed: given.Seed = 42,
    out: Annotated[
        Path | None, typer.Option(help="Keeps what is finished, so that the same command goes on; default: nothing is kept.")
    ] = None,
) -> None:
    """Run the protocol behind a published table and print our figures beside the published ones.

    Without arguments, the tables are listed with the model and the data that they need. `OUT/tables` gets one table each
    (Parquet and CSV); extraction, ablation and finished folds lie under `OUT` and are used again.

    ```
    residual-audio reproduce
    residual-audio reproduce seed1-1 seed1-fig2 --data-root ~/data/ESC-50 --published-heads heads.csv --out runs/reproduce
    residual-audio reproduce all --download --out runs/reproduce
    residual-audio reproduce all --model tiny --dataset synthetic-timbre --limit 120 --epochs 3
    ```
    """
    import tempfile

    from ..reproduction.targets import TARGETS
    from .screen import console

    names = choose(tables or [], TARGETS, once=dataset is not None)
    if not names and published_heads is None:
        listing(TARGETS)
        return
    shown = published if published is not None else model is None and dataset is None
    settings = {
        "model": model,
        "dataset": dataset,
        "published": shown,
        "protocol": protocol,
        "epochs": epochs,
        "limit": limit,
        "seed": seed,
    }
    with tempfile.TemporaryDirectory() as nowhere:
        opening = Opening(model, dataset, data_root, download, limit, device, seed)
        work(names, published_heads, opening, settings, workers, out or Path(nowhere))
    if out is not None:
        console.print(f"tables: {out / 'tables'}", highlight=False, soft_wrap=True)


def choose(words: Sequence[str], targets: dict[str, Target], once: bool = False) -> list[str]:
    """The names, each once, in the order of the list. ``once``: of all, one table a protocol, since the data are the same for every one."""
    from difflib import get_close_matches

    from ..evaluation import EvaluationError

    for word in words:
        if word not in targets and word != "all":
            near = get_close_matches(word, targets, n=2, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else "`residual-audio reproduce` lists them"
            raise EvaluationError(f"no published table {word!r}; {hint}")
    first = {target.rows: name for name, target in reversed(targets.items())}
    every = list(first.values()) if once else list(targets)
    return [name for name in targets if name in words or ("all" in words and name in every)]


@dataclass(frozen=True)
class Opening:
    """Where models and data come from: as published, or what replaces them."""

    model: str | None
    dataset: str | None
    root: Path | None
    download: bool
    limit: int | None
    device: str
    seed: int

    def encoder(self, published: str) -> Encoder:
        from ..models import EncoderError

        try:
            return given.open_model(self.model or published, self.device)
        except EncoderError as error:
            if self.model is not None:
                raise
            raise EncoderError(
                f"{error} A local copy of {published}: --model PATH --published. Without it, the same code runs by {OFFLINE}."
            ) from error

    def data(self, name: str, several: bool) -> Dataset:
        """By its published name, drawn as published; ``several``: the root holds a folder for each."""
        from ..data import DataError
        from ..reproduction.targets import DATA, DRAWN, drawn

        if self.dataset is not None:
            found = given.open_dataset(self.dataset, self.root, self.download, None)
            return found if self.limit is None else drawn(found, self.limit, self.seed)
        root = self.root / DATA[name] if self.root and (several or (self.root / DATA[name]).is_dir()) else self.root
        try:
            found = given.open_dataset(DATA[name], root, self.download, None)
        except DataError as error:
            raise DataError(f"{error}\nWithout it, the same code runs by {OFFLINE}.") from error
        found = drawn(found, DRAWN[name], self.seed) if name in DRAWN else found
        return found if self.limit is None else drawn(found, self.limit, self.seed)


def work(names: list[str], heads: Path | None, opening: Opening, settings: dict[str, Any], workers: int | None, out: Path) -> None:
    """Open everything first, then run table by table: what is missing should be told before hours of work."""
    from ..report.tables import write_table
    from ..reproduction.published import compared, published_figures
    from ..reproduction.targets import MSCLAP, PROTOCOLS, TARGETS, Bench
    from .output import provenance, write_record
    from .screen import errors, progress

    theirs = None if heads is None else published_heads_of(heads)
    needs = {n: (TARGETS[n].model, TARGETS[n].data) for n in names} | ({} if theirs is None else {HEADS: (MSCLAP, ("ESC-50",))})
    if opening.dataset is not None:
        needs = {n: (model, (opening.dataset,)) for n, (model, _) in needs.items()}
    every = list(dict.fromkeys(d for _, data in needs.values() for d in data))
    encoders = {m: opening.encoder(m) for m in dict.fromkeys(opening.model or model for model, _ in needs.values())}
    data = {d: opening.data(d, len(every) > 1) for d in every}
    protocols = {"both": PROTOCOLS, "published": PROTOCOLS[:1], "ours": PROTOCOLS[1:]}[settings["protocol"]]
    benches = {
        model: Bench(
            encoder, data, out / re.sub(r"[^\w.-]+", "-", model).strip("-."), protocols, settings["epochs"], settings["seed"], workers,
            progress, lambda line: errors.print(line, highlight=False) if errors.is_terminal else None,
        )
        for model, encoder in encoders.items()
    }  # fmt: skip
    figures, record = published_figures() if settings["published"] else None, {}
    for name, (model, used) in needs.items():
        bench = benches[opening.model or model]
        title = f"{bench.encoder.name} on {', '.join(f'{d} ({len(data[d]):,} clips)' for d in used)}"
        if name == HEADS:
            table = head_by_head(bench.heads(used[0]), theirs, str(heads))
            show_heads(table, f"{title}, head by head")
        else:
            table = compared(TARGETS[name].run(bench, used), figures)
            show(table, f"{name}: {TARGETS[name].what}\n{title}")
            remark(TARGETS[name], table, figures, settings)
        write_table(table, out / "tables", f"reproduce_{name}")
        record[name] = [provenance(bench.encoder, data[d], {}) | {"clips": len(data[d])} for d in used]
    write_record(out / "reproduce.json", {"settings": {**settings, "published_heads": heads}, "tables": record})


def published_heads_of(path: Path) -> pd.DataFrame:
    from ..evaluation import EvaluationError
    from ..reproduction.published import read_heads

    try:
        return read_heads(path)
    except ValueError as error:
        raise EvaluationError(str(error)) from error


def head_by_head(ours: pd.DataFrame, theirs: pd.DataFrame, path: str) -> pd.DataFrame:
    """The published MLE is compared with ours of as many neighbours, and with our default."""
    from ..evaluation import EvaluationError
    from ..reproduction.published import compare_heads

    if "mle" in theirs:
        theirs = theirs.assign(mle_k20=theirs.mle)
    if "twonn" in theirs:
        theirs = theirs.assign(twonn_fit=theirs.twonn)
    try:
        return compare_heads(ours, theirs)
    except ValueError as error:
        raise EvaluationError(f"{path}: {error}") from error
