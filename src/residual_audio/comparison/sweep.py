"""The same work on every pair of several models and datasets: one table, and a call that resumes pair by pair."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from ..analysis import AnalysisError, analyze
from ..data import DataError, Dataset
from ..evaluation import EvaluationError
from ..extraction import ExtractionError, StoreError, extract
from ..media import MediaError
from ..models import Encoder, EncoderError
from ..models.opening import revision_here
from ..options import OptionError
from ..results import Result, provenance, write_record
from ..units import SelectionError
from .compare import compare

FINISHED = "pair.json"
Work = Callable[[Encoder, Dataset, Path], pd.DataFrame]
KNOWN = (AnalysisError, DataError, EncoderError, EvaluationError, ExtractionError, MediaError, OptionError, SelectionError, StoreError)


@dataclass(frozen=True)
class Sweep(Result):
    """``sweep``: the rows of every pair under its ``model`` and ``dataset``. ``errors``: pairs that could not be done, and why."""

    record: ClassVar[str] = "sweep"
    tables: dict[str, pd.DataFrame]
    info: dict[str, Any]
    errors: dict[str, str]

    @property
    def table(self) -> pd.DataFrame:
        return self.tables["sweep"]


def analysed(regime: str = "pre", k: int = 20, points: int | None = None, workers: int | None = None) -> Work:
    """Extraction and analysis of a pair: every measure, as means over the heads of each stage."""

    def work(encoder: Encoder, data: Dataset, folder: Path) -> pd.DataFrame:
        run = extract(encoder, data, folder, ("head", "moments"), workers=workers)
        analysis = analyze(run, regime, k=k, points=points)
        analysis.write(folder)
        return analysis.tables["stages"].assign(clips=analysis.info["clips"])

    return work


def compared(**how: Any) -> Work:
    """A comparison of a pair, as by :func:`compare`: one row per method, and what it gains over the first."""

    def work(encoder: Encoder, data: Dataset, folder: Path) -> pd.DataFrame:
        comparison = compare(encoder, data, folder, **how)
        comparison.write(folder)
        summary = comparison.summary
        return summary.assign(gain=summary.accuracy - summary.accuracy.iloc[0], clips=len(data) - len(comparison.errors))

    return work


def place_of(name: str) -> str:
    """A folder's name for a model, a dataset or a pair of them."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "pair"


def finished(folder: Path, asked: Mapping[str, Any]) -> pd.DataFrame | None:
    """The rows of a pair that was done before; refused where it was asked for otherwise, or where the model has other weights now."""
    if not (folder / FINISHED).exists():
        return None
    record = json.loads((folder / FINISHED).read_text())
    there, then, now = record["asked"], record["model"]["revision"], revision_here(asked["model"])
    if now not in (None, then):
        raise StoreError(
            f"{folder} was finished with other weights of {asked['model']} (revision {then}, here {now}), and pairs are not mixed; "
            "use another --out"
        )
    if there != json.loads(json.dumps(asked)):
        changed = ", ".join(key for key in asked if there.get(key) != json.loads(json.dumps(asked[key])))
        raise StoreError(f"{folder} was finished with another {changed}, and pairs are not mixed; use the same, or another --out")
    return pd.read_parquet(folder / "pair.parquet")


def sweep(
    models: Sequence[str],
    datasets: Sequence[str],
    open_encoder: Callable[[str], Encoder],
    open_dataset: Callable[[str], Dataset],
    out: str | Path,
    work: Work,
    settings: Mapping[str, Any],
    tell: Callable[[str], object] | None = None,
) -> Sweep:
    """``work(encoder, dataset, folder)`` for each model with each dataset, in ``out/MODEL/DATASET``.

    A finished pair is read, not done again; one that was killed goes on where its work does. ``settings`` is what a pair must have been
    asked for to be taken. A pair that fails is recorded, and the others go on. A model is opened once, and only if it has work left.
    """
    rows, errors, records = list[pd.DataFrame](), dict[str, str](), dict[str, Any]()
    for model in models:
        encoder: Encoder | None = None
        for name in datasets:
            pair, folder = f"{model} on {name}", Path(out) / place_of(model) / place_of(name)
            try:
                data = open_dataset(name)
                digest = hashlib.sha256(json.dumps([[c.id, c.label, c.fold, c.own_group] for c in data.clips]).encode()).hexdigest()[:12]
                asked = {**settings, "model": model, "dataset": name, "clips": digest}
                done = finished(folder, asked)
                if done is None:
                    encoder = encoder or open_encoder(model)
                    done = work(encoder, data, folder).assign(model=model, dataset=data.name)
                    done.to_parquet(folder / "pair.parquet", index=False)
                    write_record(folder / FINISHED, {"asked": asked, **provenance(encoder, data)})
            except KNOWN as error:
                errors[pair] = str(error)
            if tell is not None:
                tell(f"{pair}: {'failed' if pair in errors else 'done'}")
            if pair in errors:
                continue
            records[pair] = json.loads((folder / FINISHED).read_text())
            rows.append(done)
    if not rows:
        raise EvaluationError("no pair could be done: " + "; ".join(f"{pair}: {error}" for pair, error in errors.items()))
    table = pd.concat(rows, ignore_index=True)
    first = ["model", "dataset", "clips"]
    table = table[[*first, *(c for c in table.columns if c not in first)]]
    return Sweep({"sweep": table}, {"settings": dict(settings), "pairs": records}, errors)
