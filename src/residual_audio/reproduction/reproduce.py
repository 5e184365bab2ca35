"""Run the protocols behind published tables, on the published models and data or on any others."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from ..data import Dataset
from ..evaluation import EvaluationError
from ..models import Encoder
from ..results import Result, provenance
from .bench import Bench
from .published import compare_heads, compared, published_figures, read_heads
from .rows import PROTOCOLS
from .targets import MSCLAP, TARGETS

HEADS = "heads"
CHOICES = {"both": PROTOCOLS, "published": PROTOCOLS[:1], "ours": PROTOCOLS[1:]}


@dataclass(frozen=True)
class Reproduction(Result):
    """``reproduce_NAME``: one table per published one, ours beside it."""

    record: ClassVar[str] = "reproduce"
    tables: dict[str, pd.DataFrame]
    info: dict[str, Any]
    errors: dict[str, str]


def choose(names: Sequence[str], once: bool = False) -> list[str]:
    """Published tables by name, each once, in their own order; ``all`` for every one.

    ``once``: of all, one table per protocol, since the data are the same for every one.
    """
    for name in names:
        if name not in TARGETS and name != "all":
            near = get_close_matches(name, TARGETS, n=2, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else "`residual-audio reproduce` lists them"
            raise EvaluationError(f"no published table {name!r}; {hint}")
    first = {target.rows: name for name, target in reversed(TARGETS.items())}
    every = list(first.values()) if once else list(TARGETS)
    return [name for name in TARGETS if name in names or ("all" in names and name in every)]


def needs(names: Sequence[str], heads: bool = False, dataset: str | None = None) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Of every table: the published model, and the data by their published names, or ``dataset`` in their place."""
    asked = {n: (TARGETS[n].model, TARGETS[n].data) for n in names} | ({HEADS: (MSCLAP, ("ESC-50",))} if heads else {})
    return {n: (model, data if dataset is None else (dataset,)) for n, (model, data) in asked.items()}


def reproduce(
    names: Sequence[str],
    open_encoder: Callable[[str], Encoder],
    open_dataset: Callable[[str, bool], Dataset],
    out: str | Path | None = None,
    *,
    model: str | None = None,
    dataset: str | None = None,
    published: bool = True,
    protocol: str = "both",
    heads: str | Path | None = None,
    epochs: int | None = None,
    seed: int = 42,
    workers: int | None = None,
    tell: Callable[[str], object] | None = None,
    done: Callable[[str, str, pd.DataFrame], object] | None = None,
) -> Reproduction:
    """Ours beside the published figures, table by table; what is finished stays in ``out``, and the same call resumes.

    ``open_encoder(published name)`` and ``open_dataset(published name, whether there are several)`` give what is measured; ``model`` and
    ``dataset`` name what stands in the place of the published ones. ``heads``: a published table of heads to compare head by head.
    ``done(name, title, table)`` is told of every finished table.
    """
    if protocol not in CHOICES:
        raise EvaluationError(f"unknown protocol {protocol!r}; one of {', '.join(CHOICES)}")
    theirs = None if heads is None else published_heads(heads)
    asked = needs(choose(names, once=dataset is not None), theirs is not None, dataset)
    # Everything is opened first: what is missing should be told before hours of work.
    every = list(dict.fromkeys(d for _, used in asked.values() for d in used))
    encoders = {m: open_encoder(m) for m in dict.fromkeys(model or m for m, _ in asked.values())}
    data = {d: open_dataset(d, len(every) > 1) for d in every}
    figures = published_figures() if published else None
    tables, records = dict[str, pd.DataFrame](), dict[str, Any]()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()) if out is None else out)
        benches = {
            name: Bench(encoder, data, folder / folder_name(name), CHOICES[protocol], epochs, seed, workers, tell)
            for name, encoder in encoders.items()
        }
        for name, (original, used) in asked.items():
            bench = benches[model or original]
            title = f"{bench.encoder.name} on {', '.join(f'{d} ({len(data[d]):,} clips)' for d in used)}"
            table = (
                head_by_head(bench.heads(used[0]), theirs, str(heads))
                if name == HEADS
                else compared(TARGETS[name].run(bench, used), figures)
            )
            tables[f"reproduce_{name}"] = table
            records[name] = [provenance(bench.encoder, data[d]) for d in used]
            if done is not None:
                done(name, title, table)
    settings = {"model": model, "dataset": dataset, "published": published, "protocol": protocol, "epochs": epochs, "seed": seed}
    return Reproduction(tables, {"settings": {**settings, "published_heads": heads}, "tables": records}, {})


def folder_name(model: str) -> str:
    return re.sub(r"[^\w.-]+", "-", model).strip("-.")


def published_heads(path: str | Path) -> pd.DataFrame:
    try:
        return read_heads(path)
    except ValueError as error:
        raise EvaluationError(str(error)) from error


def head_by_head(ours: pd.DataFrame, theirs: pd.DataFrame, path: str) -> pd.DataFrame:
    """The published MLE is compared with ours of as many neighbours, and with our default."""
    if "mle" in theirs:
        theirs = theirs.assign(mle_k20=theirs.mle)
    if "twonn" in theirs:
        theirs = theirs.assign(twonn_fit=theirs.twonn)
    try:
        return compare_heads(ours, theirs)
    except ValueError as error:
        raise EvaluationError(f"{path}: {error}") from error
