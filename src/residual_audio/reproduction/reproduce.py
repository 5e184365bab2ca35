"""Run the protocols behind published tables, on the published models and data or on any others."""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from ..comparison.sweep import KNOWN, place_of
from ..data import Dataset
from ..evaluation import EvaluationError
from ..models import Encoder
from ..results import Result, provenance
from .bench import Bench
from .findings import verdicts
from .published import compare_heads, compared, published_figures, read_heads
from .rows import PROTOCOLS
from .targets import MSCLAP, TARGETS

HEADS = "heads"
CHOICES = {"both": PROTOCOLS, "published": PROTOCOLS[:1], "ours": PROTOCOLS[1:]}


@dataclass(frozen=True)
class Reproduction(Result):
    """``reproduce_NAME``: one table per published one, ours beside it; ``reproduce_findings``: what was found, and whether it holds."""

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


@dataclass(frozen=True)
class Step:
    """One table on one model and its data, both by their published names or by those that stand in their place."""

    name: str
    model: str
    data: tuple[str, ...]


def steps(names: Sequence[str], heads: bool = False, models: Sequence[str] = (), datasets: Sequence[str] = ()) -> list[Step]:
    """Every table with its published model and data; or with each of ``models`` and each of ``datasets`` in their place."""
    known = {n: (TARGETS[n].model, TARGETS[n].data) for n in names} | ({HEADS: (MSCLAP, ("ESC-50",))} if heads else {})
    return [
        Step(name, model, data)
        for name, (original, used) in known.items()
        for model in models or [original]
        for data in (tuple((d,) for d in datasets) or (used,))
    ]


def reproduce(
    names: Sequence[str],
    open_encoder: Callable[[str], Encoder],
    open_dataset: Callable[[str, bool], Dataset],
    out: str | Path | None = None,
    *,
    models: Sequence[str] = (),
    datasets: Sequence[str] = (),
    published: bool = True,
    protocol: str = "both",
    heads: str | Path | None = None,
    epochs: int | None = None,
    seed: int = 42,
    workers: int | None = None,
    tell: Callable[[str], object] | None = None,
    done: Callable[[str, str, pd.DataFrame, pd.DataFrame], object] | None = None,
) -> Reproduction:
    """Ours beside the published figures, table by table; what is finished stays in ``out``, and the same call resumes.

    ``open_encoder(name)`` and ``open_dataset(name, whether there are several)`` give what is measured; ``models`` and ``datasets`` stand,
    each with each, in the place of the published ones. Of several, one that fails is recorded and the others go on. ``heads``: a published
    table of heads to compare head by head. ``done(name, title, table, findings)`` is told of every finished table.
    """
    if protocol not in CHOICES:
        raise EvaluationError(f"unknown protocol {protocol!r}; one of {', '.join(CHOICES)}")
    theirs = None if heads is None else published_heads(heads)
    plan = steps(choose(names, once=bool(datasets)), theirs is not None, models, datasets)
    # Everything is opened first: what is missing should be told before hours of work.
    every = list(dict.fromkeys(d for step in plan for d in step.data))
    encoders = {m: open_encoder(m) for m in dict.fromkeys(step.model for step in plan)}
    data = told_apart({d: open_dataset(d, len(every) > 1) for d in every})
    figures = published_figures() if published else None
    several = len(models) > 1 or len(datasets) > 1
    parts, found, records, errors = defaultdict[str, list[pd.DataFrame]](list), list[dict[str, Any]](), dict[str, Any](), dict[str, str]()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()) if out is None else out)
        benches = {
            name: Bench(encoder, data, folder / place_of(name), CHOICES[protocol], epochs, seed, workers, tell)
            for name, encoder in encoders.items()
        }
        for step in plan:
            bench = benches[step.model]
            title = f"{bench.encoder.name} on {', '.join(f'{d} ({len(data[d]):,} clips)' for d in step.data)}"
            place = {"target": step.name, "model": bench.encoder.name, "dataset": ", ".join(step.data)}
            try:
                table, verdict = measured(step, bench, figures, theirs, str(heads))
            except KNOWN as error:
                if not several:
                    raise
                errors[f"{step.name}, {title}"] = str(error)
                continue
            parts[step.name].append(table.assign(model=bench.encoder.name) if several else table)
            found += [{**place, **one} for one in verdict]
            records.setdefault(step.name, []).extend(provenance(bench.encoder, data[d]) for d in step.data)
            if done is not None:
                done(step.name, title, table, pd.DataFrame(verdict))
    tables = {f"reproduce_{name}": pd.concat(own, ignore_index=True) for name, own in parts.items()}
    tables |= {"reproduce_findings": pd.DataFrame(found)} if found else {}
    settings = {
        "models": list(models),
        "datasets": list(datasets),
        "published": published,
        "protocol": protocol,
        "epochs": epochs,
        "seed": seed,
    }
    differs = {name: list(TARGETS[name].differs) for name in parts if name != HEADS and TARGETS[name].differs}
    return Reproduction(tables, {"settings": {**settings, "published_heads": heads}, "tables": records, "differs": differs}, errors)


def told_apart(data: dict[str, Dataset]) -> dict[str, Dataset]:
    """Datasets whose names make one folder (``drums/a`` and ``drums-a``) get a digest of what they were asked for by."""
    often = Counter(place_of(d.name) for d in data.values())
    digests = {asked: hashlib.sha256(asked.encode()).hexdigest()[:8] for asked in data}
    return {asked: d if often[place_of(d.name)] == 1 else replace(d, name=f"{d.name}-{digests[asked]}") for asked, d in data.items()}


def measured(
    step: Step, bench: Bench, figures: pd.DataFrame | None, theirs: pd.DataFrame | None, path: str
) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """A table, and what is found in it."""
    if step.name == HEADS:
        assert theirs is not None
        return head_by_head(bench.heads(step.data[0]), theirs, path), []
    target = TARGETS[step.name]
    table = target.run(bench, step.data)
    sizes = [len(stage) for stage in bench.encoder.units.heads]
    return compared(table, figures), list(verdicts(table, target.rows, tuple(accumulate(sizes[:-1]))))


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
