"""Cross-validate methods against each other: same folds, same parts, every test clip scored once; resumable."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch

from ..adaptation.methods import METHODS
from ..adaptation.prepare import prepare
from ..adaptation.recipe import Recipe
from ..adaptation.task import FoldTask, Setting
from ..adaptation.tuning import Learning, check_learning
from ..data import Dataset
from ..evaluation import EvaluationError, choose_classifier
from ..evaluation.folds import fold_parts, with_folds
from ..evaluation.metrics import outcome
from ..extraction.extract import identity, open_or_create
from ..extraction.shard import Settings
from ..extraction.store import Store
from ..models import Encoder
from ..options import OptionError, words
from ..progress import progress
from ..results import Result, provenance
from ..rounding import percent
from ..writing import own_folder
from .cells import Work, adapt_fold, check_options, judge, write
from .elsewhere import Elsewhere, base_and_novel
from .protocol import COMPARED, Protocol, bare
from .rows import rows_of
from .strength import parse_strengths
from .tables import gather

STORE = "comparison"


@dataclass(frozen=True)
class Comparison(Result):
    """``comparison_cells``: one row per method, classifier, fold and repeat; ``comparison_summary``: one per method and classifier;
    ``comparison_paired``: one per pair of these, those with the first (the baseline) first. The column ``method`` is their name: the
    method, and where it is not the first classifier, METHOD+CLASSIFIER; ``adaptation`` and ``classifier`` are its parts."""

    record: ClassVar[str] = "comparison"
    tables: dict[str, pd.DataFrame]
    info: dict[str, Any]
    errors: dict[str, str]

    @property
    def cells(self) -> pd.DataFrame:
        return self.tables["comparison_cells"]

    @property
    def summary(self) -> pd.DataFrame:
        return self.tables["comparison_summary"]

    @property
    def paired(self) -> pd.DataFrame:
        return self.tables["comparison_paired"]


def compare(
    encoder: Encoder,
    dataset: Dataset,
    out: str | Path,
    methods: Sequence[str] = COMPARED,
    recipe: Recipe = Recipe(),
    protocol: Protocol = Protocol(),
    *,
    other: Dataset | None = None,
    novel: bool = False,
    shots: int | None = None,
    workers: int | None = None,
    advance: Callable[[int], object] | None = None,
    tell: Callable[[str], object] | None = None,
    ready: Setting | None = None,
) -> Comparison:
    """Cross-validate ``methods`` with the classifiers of the protocol (or, as ``"plain+probe"``, with one of their own); the first row is
    the baseline. A method is learned once per fold, and its adapted embeddings are kept beside the finished cells in
    ``out/comparison``: the same call resumes, and one with further classifiers fits only these.

    ``other``: a second dataset on which the adapted models' zero-shot accuracy is measured too. ``novel``: adapt to the first half of the
    classes, and measure zero-shot accuracy on the others too. ``shots``: so many clips per class
    for everything outside the test. ``advance(n)`` is told of clips while they are decoded, ``tell(line)`` of every finished cell.
    ``ready``: what :func:`prepare` gave for the same methods and recipe, where several comparisons share it.
    """
    if not methods:
        raise EvaluationError(f"no method is named; one or more of {', '.join(METHODS)}")
    if shots is not None and protocol.parts != Protocol.parts:
        raise OptionError("few shots are divided in their own way; leave out --parts")
    names = bare(methods)
    recipe.check(names)
    recipe = recipe.on(encoder.device)
    rows = rows_of(methods, protocol.classifier, encoder)
    seed, repeats, folds = protocol.seed, protocol.repeats, protocol.folds
    # Folds before halves: a group that has clips in both is in one fold.
    dataset, kept_out = base_and_novel(with_folds(dataset, folds, seed), encoder) if novel else (dataset, None)
    check_learning(protocol, recipe, names)
    choices: dict[str, Any] = {f.name: getattr(protocol, f.name) for f in fields(Learning)}
    choices = {name: value for name, value in choices.items() if value is not None and value is not False}
    strengths = parse_strengths(protocol.strengths)
    choices |= {"strengths": strengths} if strengths else {}
    choices |= {"classifier": choose_classifier(words(protocol.classifier)[0], encoder).name, "folds": protocol.folds}
    choices |= {"template": protocol.template, "seed": seed, "shots": shots, "other": other and other.name}
    choices |= {"novel": list(kept_out.labels)} if kept_out else {}
    choices |= {"parts": protocol.parts} if protocol.parts != Protocol.parts else {}
    recorded = {m: json.loads(json.dumps(recipe.recorded(m, encoder.units))) for m in names}
    store = Store(str(own_folder(Path(out) / STORE)))
    with store.locked():
        open_or_create(store, {**identity(encoder, dataset, Settings(("embedding",))), "settings": choices})
        check_options(store, recorded)
        prepared = partial(prepare, encoder, template=protocol.template, seed=seed, workers=workers, advance=advance)
        setting = ready or prepared(dataset, names, recipe, folds="official" if novel else folds, keep=protocol.keep_clips)
        elsewhere = Elsewhere(*(None if data is None else prepared(data, names, recipe) for data in (other, kept_out)))
        targets = torch.from_numpy(setting.dataset.targets)
        plan = [
            Work(method, fold, repeat, parts, tuple(row for row in rows if row.method == method))
            for repeat in range(repeats)
            for fold, parts in fold_parts(setting.dataset, seed + repeat, shots, protocol.parts)
            for method in names
        ]
        began, missing = time.monotonic(), [work for work in plan if work.missing(store)]
        with progress("methods × folds", len(plan), done=len(plan) - len(missing)) as finished:
            for done, work in enumerate(missing, start=1):
                task = FoldTask(setting, targets, work.parts, seed + work.repeat)
                left = adapt_fold(work, task, recipe, protocol, elsewhere, store, recorded[work.method])
                for row in work.missing(store):
                    scores, facts = judge(work, row, task, left)
                    said = {"facts": facts, "history": left.history, "stopping": left.stopping, "cell": [row.name, work.fold, work.repeat],
                            "method": row.method, "classifier": row.classifier, "options": recorded[work.method],
                            "parts": work.digest}  # fmt: skip
                    write(store, work.cell(row), {"scores": scores, "test": torch.from_numpy(work.parts.test)}, said)
                    if tell is not None:
                        right = outcome(scores.numpy(), setting.dataset.targets[work.parts.test]).correct.mean()
                        minutes = (time.monotonic() - began) / done * (len(missing) - done) / 60
                        place = f"{len(plan) - len(missing) + done}/{len(plan)} {row.name}, fold {work.fold}"
                        tell(f"{place}: {percent(right)} % in {facts['seconds']:.0f} s; about {minutes:.0f} min left")
                finished(1)
        cells = [work.cell(row) for work in plan for row in work.rows]
        unseen = elsewhere.novel.dataset if elsewhere.novel else None
        second = elsewhere.other.dataset if elsewhere.other else None
        tables = gather(store, cells, setting.dataset, rows, repeats, seed, protocol.margin, unseen, second)
        store.write_json("run.json", {**store.read_json("run.json"), "status": "complete"})
    settings = {**choices, "repeats": repeats, "methods": recorded, "rows": {r.name: [r.method, r.classifier] for r in rows}}
    errors = {
        **(elsewhere.other.errors if elsewhere.other else {}),
        **(elsewhere.novel.errors if elsewhere.novel else {}),
        **setting.errors,
    }
    return Comparison(tables, {**provenance(encoder, dataset), "settings": settings, "keep_clips": setting.kept}, errors)
